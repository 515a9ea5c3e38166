"""The mark of a topic: what tells it from one that was created again under its name.

A name is not a topic: Kafka gives each topic an id when it is created. A mark is short enough for the metadata of each
commit. Its first four characters stand for the cluster, the others are the beginning of the topic's id, as
``kafka-topics.sh --describe`` shows it. An empty mark means that the topic is unknown: brokers before Kafka 2.8 give
no ids, and versions of this project before feature level 3 noted none.
"""

from __future__ import annotations

import base64
import zlib

CLUSTER_LENGTH = 4
"""Characters of a mark that stand for the cluster."""

_ID_LENGTH = 8
MARK_LENGTH = CLUSTER_LENGTH + _ID_LENGTH
"""Characters of a mark; an unknown one has none."""

MARK_LEVEL = 3
"""The feature level from which on the metadata of a commit names its topic."""

MARKED = "p5:"
"""How the metadata of a commit begins that names its topic."""

MARKED_LENGTH = len(MARKED) + MARK_LENGTH

_URL_SAFE = str.maketrans("+/", "-_")
_NO_ID = "A"
"""An id of zeros, which a broker without ids reports, is written with this character alone."""


def topic_mark(cluster: str, topic_id: str) -> str:
    """Return the mark of a topic.

    Args:
        cluster: the id of the cluster.
        topic_id: the id of the topic: 22 characters of base64. Kafka writes URL-safe ones, its C client does not.
    """
    if not cluster or not topic_id.strip(_NO_ID):
        return ""
    digest = zlib.crc32(cluster.encode()).to_bytes(4, "big")[:3]
    return base64.urlsafe_b64encode(digest).decode() + topic_id[:_ID_LENGTH].translate(_URL_SAFE)


def marked(mark: str, metadata: str) -> str:
    """Return metadata that names its topic; the same metadata if the topic is unknown."""
    return f"{MARKED}{mark}{metadata}" if mark else metadata


def split_mark(metadata: str) -> tuple[str, str]:
    """Return the mark of the topic that the metadata names, empty if it names none, and the rest of the metadata."""
    if metadata.startswith(MARKED) and len(metadata) >= MARKED_LENGTH:
        return metadata[len(MARKED) : MARKED_LENGTH], metadata[MARKED_LENGTH:]
    return "", metadata


def is_void(metadata: str, present: str) -> bool:
    """Whether an offset with this metadata was committed in an older topic of the same name. ``present``: its mark."""
    return is_other_topic(split_mark(metadata)[0], present)


def is_other_topic(remembered: str, present: str) -> bool:
    """Whether what is remembered is about another topic of the same cluster than the present one of that name.

    Nothing is known if one mark is unknown. In another cluster a mirror has copied the topic, so what is remembered of
    it still holds.
    """
    known = len(remembered) == len(present) == MARK_LENGTH
    return known and remembered != present and remembered[:CLUSTER_LENGTH] == present[:CLUSTER_LENGTH]
