"""Suites: templates, RunConfigs, frozen forms, digests and cards."""
