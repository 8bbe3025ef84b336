"""Processes on this machine and at a Prefect server: the server, its worker, the viewer, the deployments."""
