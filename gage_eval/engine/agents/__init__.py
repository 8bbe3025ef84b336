"""Programs as agents: a program in a box, and the relay that answers its requests."""
