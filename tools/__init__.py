"""Tools for developers of gage-eval, not in the wheel: the lock of code hashes, and generators of doc pages."""
