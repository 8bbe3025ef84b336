"""HTTP client of model endpoints: requests, responses, streams, retries, pace, limits and budgets."""
