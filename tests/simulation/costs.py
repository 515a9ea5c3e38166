"""How long things take in the simulation. Figures of one core of the machine of docs/reference/measurements.md."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Costs:
    """Seconds. ``calibration.py`` compares what follows from them with measured runs."""

    broker_cores: int = 4
    round_trip_s: float = 0.0005
    add_offsets_s: float = 0.0007
    """Adding the offsets of a group to a transaction, at the coordinator of the transaction."""

    offsets_s: float = 0.0002
    """Committing them, at the coordinator of the group: all members have the same, and it works on one core."""

    produce_s: float = 0.001
    """A produce request, which is for one partition; its partition is registered in the transaction first."""

    record_s: float = 0.00001
    """A record in a produce request."""

    end_s: float = 0.002
    """The end of a transaction, without its markers."""

    marker_s: float = 0.0004
    """The marker of a transaction in one partition."""

    fetch_s: float = 0.0015
    """From the moment when a record can be read until it is in the client's queue."""

    fetch_wait_s: float = 0.02
    """``fetch.wait.max.ms``: an idle fetch is answered after this time, and a resumed partition waits for that."""

    idle_fetch_s: float = 0.0001
    """Processor time of the broker for a fetch without records."""

    turn_s: float = 0.00008
    """A turn of a worker or scheduler."""

    turn_partition_s: float = 0.000001
    """The same, for each partition that the process owns."""

    turn_record_s: float = 0.00002
    """The same, for each record that is fetched."""
