"""How a Prefect server notices that the process of a run is gone: the run sends a heartbeat, in seconds."""

# A run on a worker sends one so often.
HEARTBEAT_S = 10
# A run that has sent none for so long is lost. Servers and databases restart in less time.
LOST_AFTER_S = 120
# `gage deploy --lost-after` takes no less: two heartbeats that are late must not end a run.
LEAST_LOST_AFTER_S = 3 * HEARTBEAT_S
