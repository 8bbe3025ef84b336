"""Events of a run, reported to observers: the console, the run's event log, Prefect."""
