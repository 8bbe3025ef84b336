"""Stored runs: read, listed, explained, exported and queried."""
