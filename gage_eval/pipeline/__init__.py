"""The seven stages: their specs and keys, the one graph, and the functions that carry them out."""
