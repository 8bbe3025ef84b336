"""Tasks of the lm-eval harness: its own code runs in a separate process (`worker`), which `client` asks."""
