"""What a configuration file would say about the dead-letter topic of another system, which has none."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import Field

from kafka_redelivery.topology.config.settings import Settings, SourceSection
from kafka_redelivery.topology.topics.naming import Naming

_REDRIVE = "{group}.redelivery"


class ForeignTopic(Settings):
    """Settings for one dead-letter topic of another system.

    The name of the topic takes the place of the group: jobs and actions are in ``{topic}.redelivery.jobs`` and
    ``{topic}.redelivery.actions``. There are no policies, and no group of ours reads anything.
    """

    mapping: dict[str, str] = Field({}, description="Which header has what, if the system is not known.")

    @property
    def dead_letter_topic(self) -> str:
        """The topic with the dead letters."""
        return self.group

    def naming(self) -> Naming:
        """Return the names of the topics that sending letters again needs."""
        return Naming(group=self.group, redrive=_REDRIVE)


def foreign_topic(
    topic: str, kafka: Mapping[str, str | int | float | bool], mapping: Mapping[str, str]
) -> ForeignTopic:
    """Return the settings of a dead-letter topic.

    Args:
        topic: its name.
        kafka: the settings of the Kafka clients.
        mapping: as :func:`dead_letters.foreign.letter.foreign_letter`.
    """
    return ForeignTopic(group=topic, kafka=dict(kafka), sources=(SourceSection(topic=topic),), mapping=dict(mapping))
