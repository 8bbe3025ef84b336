"""The built-in metrics. Each module registers its own."""
