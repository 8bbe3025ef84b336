"""From answers to scores: metrics, filters, verdict parsers, score cards."""
