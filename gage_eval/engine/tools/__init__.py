"""Tools that models call: Python functions and classes, and commands in a box."""
