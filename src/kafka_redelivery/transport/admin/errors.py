"""Errors of admin requests."""

from __future__ import annotations

from collections.abc import Sequence

from kafka_redelivery.topology import exit_codes
from kafka_redelivery.topology.config.rules.clients import OAUTH_CB, PASSWORD_FILE
from kafka_redelivery.topology.faults import TopologyFault
from kafka_redelivery.transport.client_config import Config, login_of, servers_of
from kafka_redelivery.transport.errors import TransportError, grant
from kafka_redelivery.transport.protocols import Partition
from kafka_redelivery.transport.tokens import token_source


class AdminError(TransportError):
    """The cluster refuses a request. ``operation`` names the request, ``detail`` is the broker's answer."""

    def __init__(self, operation: str, detail: str) -> None:
        super().__init__(f"{operation}: {detail}")
        self.operation = operation
        self.detail = detail


class NoLeaderError(AdminError):
    """Partitions have no leader, because no broker runs that has a replica in sync. Start one of these brokers."""

    def __init__(self, operation: str, partitions: Sequence[Partition]) -> None:
        names = ", ".join(map(str, partitions))
        lead = f"{names} {'has' if len(partitions) == 1 else 'have'} no leader"
        super().__init__(operation, f"{lead}; start a broker that has a replica in sync, then repeat this")
        self.partitions = tuple(partitions)


class NotAuthorisedError(AdminError):
    """The user of the ``kafka`` settings may not do this, or not log in. Grant the right, or use another user."""

    def __init__(
        self,
        operation: str,
        detail: str,
        right: str = "",
        *,
        group: str = "",
        login: bool = False,
        unreadable: Sequence[str] = (),
    ) -> None:
        """Take the refusal; ``right`` is what to grant, such as ``Create on topic orders``."""
        super().__init__(operation, detail + (grant(right) if right else ""))
        self.group = group
        """The consumer group that the user may not ask about; empty if it is something else that is refused."""

        self.unreadable = tuple(unreadable)
        """The topics whose configurations the user may not read."""

        self.login = login
        """Whether the brokers do not accept the credentials, or the client gets no token to show them."""


def login_problem(config: Config, detail: str) -> str:
    """Return what to say about a login that the brokers refuse.

    Args:
        config: the settings of the client that logs in.
        detail: what the client says about it.
    """
    source = token_source(config)
    missing = None if source is None else source.problem
    where = f"cannot log in at {servers_of(config)} as {login_of(config)}: {missing or detail}"
    if missing is not None:
        return where
    if source is not None:
        fix = f"what {OAUTH_CB} {config[OAUTH_CB]} returns: the brokers refuse this token"
    elif PASSWORD_FILE in config:
        fix = f"sasl.mechanism and sasl.username, and the password in {config[PASSWORD_FILE]}"
    else:
        fix = "sasl.mechanism, and sasl.username and sasl.password or the sasl.oauthbearer settings"
    return f"{where}; under kafka, check {fix}"


class TopologyRefusedError(TransportError):
    """The cluster's topics would lose records, or an output topic does not exist; nothing was started.

    Raised by :func:`verify`. Each of the ``faults`` names its fix.
    """

    exit_code = exit_codes.TOPOLOGY_REFUSED

    def __init__(self, faults: Sequence[TopologyFault]) -> None:
        count = "1 fault" if len(faults) == 1 else f"{len(faults)} faults"
        lines = [f"the topology has {count} that would lose or block records", *(f"  {fault}" for fault in faults)]
        super().__init__("\n".join(lines))
        self.faults = tuple(faults)
