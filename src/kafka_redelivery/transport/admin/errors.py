"""Errors of admin requests."""

from __future__ import annotations

from collections.abc import Sequence

from kafka_redelivery.topology import exit_codes
from kafka_redelivery.topology.cluster.acls import AclRole
from kafka_redelivery.topology.cluster.kafka_rights import Right
from kafka_redelivery.topology.config.rules.clients import PASSWORD_FILE
from kafka_redelivery.topology.faults import TopologyFault
from kafka_redelivery.transport.client_config import Config, login_of, servers_of
from kafka_redelivery.transport.errors import TransportError, grant


class AdminError(TransportError):
    """The cluster refuses a request. ``operation`` names the request, ``detail`` is the broker's answer."""

    def __init__(self, operation: str, detail: str) -> None:
        super().__init__(f"{operation}: {detail}")
        self.operation = operation
        self.detail = detail


class NotAuthorisedError(AdminError):
    """The user of the ``kafka`` settings may not do this. Grant the right, or use another user."""

    def __init__(self, operation: str, detail: str, right: str = "") -> None:
        """Take the refusal; ``right`` is what to grant, such as ``Create on topic orders``."""
        super().__init__(operation, detail + (grant(right) if right else ""))


class LoginError(NotAuthorisedError):
    """The brokers do not accept the credentials, or the client gets no token to show them."""

    def __init__(self, operation: str, config: Config, detail: str) -> None:
        super().__init__(operation, login_problem(config, detail))


def login_problem(config: Config, detail: str) -> str:
    """Return what to say about a login that the brokers refuse.

    Args:
        config: the settings of the client that logs in.
        detail: what the client says about it.
    """
    where = f"cannot log in at {servers_of(config)} as {login_of(config)}: {detail}"
    if PASSWORD_FILE in config:
        fix = f"sasl.mechanism and sasl.username, and the password in {config[PASSWORD_FILE]}"
    else:
        fix = "sasl.mechanism, and sasl.username and sasl.password or the sasl.oauthbearer settings"
    return f"{where}; under kafka, check {fix}"


class GroupForbiddenError(NotAuthorisedError):
    """The user may not ask about a consumer group."""

    def __init__(self, operation: str, detail: str, group: str, right: str = "Describe") -> None:
        super().__init__(operation, detail, f"{right} on group {group}")
        self.group = group


class MissingRightsError(NotAuthorisedError):
    """The user lacks rights without which a worker, scheduler or command cannot start; ``rights`` are all of them."""

    def __init__(self, role: AclRole, rights: Sequence[Right]) -> None:
        one = len(rights) == 1
        count, rule = ("a right", "rule that denies it") if one else (f"{len(rights)} rights", "rules that deny them")
        commands = f"`redelivery topology acls --role {role}`"
        head = f"the Kafka user lacks {count}; grant with the commands of {commands}, or remove the {rule}:"
        super().__init__(str(role), "\n".join([head, *(f"  {right}" for right in rights)]))
        self.rights = tuple(rights)


class ClientSettingsError(TransportError):
    """The Kafka client refuses the ``kafka`` settings: an unknown name, or a value it cannot use."""

    exit_code = exit_codes.CONFIGURATION

    def __init__(self, detail: str) -> None:
        super().__init__(
            f"the Kafka client refuses the kafka settings: {detail}; correct that setting or remove it: "
            "its names and values are librdkafka's"
        )
        self.detail = detail


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
