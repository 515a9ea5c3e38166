"""What looking after topics and first offsets can end in."""

from __future__ import annotations

from collections.abc import Sequence

from topology.topology_fault import TopologyFault
from transport.errors import TransportError


class AdminError(TransportError):
    """The cluster refuses something for a reason of its own.

    ``operation`` is what was tried, ``detail`` the broker's answer.
    """

    def __init__(self, operation: str, detail: str) -> None:
        super().__init__(f"{operation}: {detail}")
        self.operation = operation
        self.detail = detail


class NotAuthorisedError(AdminError):
    """The user of the ``kafka`` settings may not do that; grant it, or let somebody else do it."""


class ClientSettingsError(TransportError):
    """The Kafka client refuses the ``kafka`` settings: an unknown name, or a value it cannot use."""

    def __init__(self, detail: str) -> None:
        super().__init__(
            f"the Kafka client refuses the kafka settings: {detail}; correct that setting or remove it: "
            "its names and values are librdkafka's"
        )
        self.detail = detail


class GroupActiveError(TransportError):
    """First offsets cannot be committed while members of the group run. Nothing was changed.

    Raised by ``apply``; mend: stop the group's processes, or wait until their sessions have ended.
    """

    def __init__(self, group: str, members: int) -> None:
        super().__init__(
            f"group {group} has {members} running member{'s' if members != 1 else ''} and lacks first offsets, which "
            "can only be committed while it has none; stop them, or wait for their session to end, and apply again"
        )
        self.group = group
        self.members = members


class TopologyRefusedError(TransportError):
    """The cluster's topics would lose records; nothing was started.

    Raised by :func:`transport.preflight.verify`; ``faults`` tell each mend.
    """

    def __init__(self, faults: Sequence[TopologyFault]) -> None:
        count = "1 fault" if len(faults) == 1 else f"{len(faults)} faults"
        lines = [f"the topology has {count} that would lose records", *(f"  {fault}" for fault in faults)]
        super().__init__("\n".join(lines))
        self.faults = tuple(faults)
