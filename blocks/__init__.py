"""Prefect blocks of gage-eval: named places and endpoints, referred to by name in configs."""
