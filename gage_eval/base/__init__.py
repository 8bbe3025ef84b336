"""Foundations of all parts: errors, canonical JSON, hashes, marks, table schemas, files and processes."""
