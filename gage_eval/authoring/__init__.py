"""Before a run: new configs, templates, the first rows, the preview of requests."""
