"""How a Prefect server notices that the process of a run is gone: Prefect's engine sends heartbeats, in seconds."""

# The least that Prefect takes. Workers of our work pools and of `gage server start` set it.
HEARTBEAT_S = 30
# A run that has sent none for so long is lost. Servers and databases restart in less time.
LOST_AFTER_S = 120
# `gage deploy --lost-after` takes no less: one heartbeat that is missing and one that is late must not end a run.
LEAST_LOST_AFTER_S = 75
