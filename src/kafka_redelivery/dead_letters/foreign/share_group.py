"""Whether the dead letters of a share group would be lost. A client is not told: the broker only logs it.

Source: KIP-1191, and what Kafka 4.4.0 does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

TOPIC: Final = "errors.deadletterqueue.topic.name"
_COPY: Final = "errors.deadletterqueue.copy.record.enable"
_ENABLE: Final = "errors.deadletterqueue.group.enable"
_AUTO_CREATE: Final = "errors.deadletterqueue.auto.create.topics.enable"
_PREFIX: Final = "errors.deadletterqueue.topic.name.prefix"
_LOST: Final = "every record that the group gives up is archived without a dead letter"


LOST, INCOMPLETE = True, False
"""Whether dead letters are lost, or lack something or are elsewhere."""


class ShareGroupFault(NamedTuple):
    """A setting that loses dead letters, or a part of them."""

    loses_letters: bool
    problem: str
    fix: str

    def document(self) -> dict[str, Any]:
        """Return it as plain data for JSON."""
        return {"losesLetters": self.loses_letters, "problem": self.problem, "fix": self.fix}


def share_group_faults(
    group: str,
    topic: str,
    of_group: Mapping[str, str],
    of_topics: Mapping[str, Mapping[str, str]],
    of_broker: Mapping[str, str],
) -> Iterator[ShareGroupFault]:
    """Yield what is wrong with the dead letters of a share group.

    Args:
        group: the share group.
        topic: the topic in which its dead letters are expected.
        of_group: the configuration of the group.
        of_topics: those of the topics that exist.
        of_broker: that of a broker.
    """
    alter = f"kafka-configs.sh --alter --entity-type groups --entity-name {group} --add-config"
    named = of_group.get(TOPIC, "")
    if not named:
        yield ShareGroupFault(LOST, f"group {group} has no {TOPIC}: {_LOST}", f"{alter} {TOPIC}={topic}")
        return
    if named != topic:
        yield ShareGroupFault(
            INCOMPLETE,
            f"the dead letters of group {group} go to {named}, not to {topic}",
            f"name {named} with --topic, or {alter} {TOPIC}={topic}",
        )
    prefix, config = of_broker.get(_PREFIX, ""), of_topics.get(named)
    if not named.startswith(prefix):
        yield ShareGroupFault(
            LOST,
            f"the name of topic {named} does not begin with {prefix} ({_PREFIX} of the brokers): {_LOST}",
            f"{alter} {TOPIC}={prefix}{named}, and create that topic with {_ENABLE}=true",
        )
    if config is None and of_broker.get(_AUTO_CREATE) != "true":
        yield ShareGroupFault(
            LOST,
            f"there is no topic {named}, or it may not be described: {_LOST}",
            f"kafka-topics.sh --create --topic {named} --config {_ENABLE}=true",
        )
    if config is not None and config.get(_ENABLE) != "true":
        yield ShareGroupFault(
            LOST,
            f"topic {named} has not {_ENABLE}=true: {_LOST}",
            f"kafka-configs.sh --alter --entity-type topics --entity-name {named} --add-config {_ENABLE}=true",
        )
    if config is not None and "compact" in config.get("cleanup.policy", ""):
        yield ShareGroupFault(
            LOST,
            f"topic {named} is compacted: it takes no letter without a key, and keeps one of each key",
            f"kafka-configs.sh --alter --entity-type topics --entity-name {named} --add-config cleanup.policy=delete",
        )
    if of_group.get(_COPY) != "true":
        yield ShareGroupFault(
            INCOMPLETE,
            f"the letters have no content: it is lost when the retention of the source deletes the record ({_COPY})",
            f"{alter} {_COPY}=true, or send the letters again before that",
        )
