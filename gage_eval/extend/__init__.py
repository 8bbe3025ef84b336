"""Code that is not ours: registries of plug-ins, their protocols, and loading with checks."""
