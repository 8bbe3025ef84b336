"""Prefect blocks of gage-eval: stores and endpoints that configs refer to by name."""
