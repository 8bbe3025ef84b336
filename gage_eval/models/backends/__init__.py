"""Built-in model backends; each module registers itself and imports nothing heavy."""
