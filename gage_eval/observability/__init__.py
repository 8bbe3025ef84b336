"""What happens in a run, told to whoever listens: the console, the run's event log, Prefect."""
