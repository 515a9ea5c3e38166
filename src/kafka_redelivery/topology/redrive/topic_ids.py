"""Which topics are meant, and not only their names: one that was deleted and created again has other letters.

What is remembered of a letter by topic, partition and offset goes with the ids of the cluster and of the topic. If one
of two ids is not known, as in jobs of earlier versions and on brokers before Kafka 2.8, they are not compared.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicIds:
    """The ids of a cluster and of some of its topics, as they were at one moment."""

    cluster: str = ""
    """Empty if it is not known."""

    ids: Mapping[str, str] = field(default_factory=dict)
    """By the name of the topic; one that is not known is missing."""

    def only(self, topics: Iterable[str]) -> Self:
        """Return the ids of these topics alone."""
        wanted = set(topics)
        return type(self)(
            cluster=self.cluster, ids={name: each for name, each in sorted(self.ids.items()) if name in wanted}
        )

    def elsewhere(self, now: TopicIds) -> bool:
        """Whether ``now`` is of another cluster."""
        return bool(self.cluster and now.cluster and self.cluster != now.cluster)

    def holds(self, topic: str, now: TopicIds) -> bool:
        """Whether what is remembered with these ids is about the topic that has this name now, as far as is known."""
        before, after = self.ids.get(topic), now.ids.get(topic)
        return not self.elsewhere(now) and (not before or not after or before == after)

    def created_again(self, now: TopicIds) -> list[str]:
        """Return the topics that are others now."""
        return [topic for topic in sorted(self.ids) if not self.holds(topic, now)]

    def difference(self, now: TopicIds, since: str) -> str:
        """Return why what is remembered with these ids is about other letters now; empty if it is not.

        Args:
            now: the present ids.
            since: when these ids were read, such as ``the preview``.
        """
        if self.elsewhere(now):
            return f"since {since} the cluster is another one: its id was {self.cluster}, and is {now.cluster}"
        again = self.created_again(now)
        if not again:
            return ""
        named = f"topic {again[0]} was" if len(again) == 1 else f"topics {', '.join(again)} were"
        return f"{named} deleted and created again since {since}"

    def document(self) -> dict[str, Any]:
        """Return them as plain data for JSON, which :meth:`of` reads."""
        return {"cluster": self.cluster, "ids": dict(self.ids)}

    def text(self) -> str:
        """Return them as a text that :meth:`read` reads."""
        return json.dumps(self.document(), separators=(",", ":"))

    @classmethod
    def of(cls, document: Mapping[str, Any] | None) -> Self:
        """Return what :meth:`document` has returned; without it nothing is known.

        Raises:
            AttributeError, TypeError, LookupError: it has not returned that.
        """
        if document is None:
            return cls()
        ids = {str(name): str(each) for name, each in document["ids"].items()}
        return cls(cluster=str(document["cluster"]), ids=ids)

    @classmethod
    def read(cls, text: str) -> Self:
        """Return what :meth:`text` has returned; of another text nothing is known."""
        try:
            return cls.of(json.loads(text))
        except (ValueError, AttributeError, TypeError, LookupError, RecursionError):
            return cls()
