"""Tasks of the lm-eval harness: its own code runs in a process of its own (`worker`), which `client` asks."""
