"""Episodes, endpoints, limits, retries and the write-ahead log of answers."""
