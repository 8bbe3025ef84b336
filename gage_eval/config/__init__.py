"""Configuration: from a YAML file to resolved tasks."""
