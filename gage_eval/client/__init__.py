"""Talking to an endpoint: requests and responses, HTTP and streams, retries, pace, limits and budgets."""
