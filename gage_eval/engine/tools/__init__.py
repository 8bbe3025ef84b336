"""Tools that models call: Python functions and classes."""
