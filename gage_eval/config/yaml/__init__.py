"""YAML as trees with line numbers: read, merged and written."""
