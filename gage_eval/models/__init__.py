"""From requests to responses: the HTTP client and the backends."""
