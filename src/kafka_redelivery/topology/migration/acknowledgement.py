"""Imports the acknowledgement options of a connection URI.

The mode is not among them: a client chooses it with ``createSession``. But ``optimizeAcknowledge`` has an effect only
in mode ``auto``, so a URI that sets it implies that mode.

Source: ``ActiveMQMessageConsumer``, which takes the flag from the connection if its session is ``AUTO_ACKNOWLEDGE``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafka_redelivery.topology.java.text import java_boolean, java_integer
from kafka_redelivery.topology.migration.result import Imported
from kafka_redelivery.topology.policy.acknowledgement import AcknowledgementMode

_OPTIMIZE, _TIME_OUT = "optimizeAcknowledge", "optimizeAcknowledgeTimeOut"
_QUEUE, _ALL = "queuePrefetch", "all"
_PREFETCH = "prefetchPolicy."
CARRIED = frozenset({_OPTIMIZE, _TIME_OUT, _QUEUE, _ALL})
"""Properties for which this module adds the notes."""

_LONG = 2**63
_ELSEWHERE = "is not carried over: it has an effect only with optimizeAcknowledge or in mode dups_ok"


def carry_acknowledgement(options: Mapping[str, str | None], imported: Imported) -> None:
    """Add the acknowledgement options to an import.

    Args:
        options: the options that the connection factory accepts, without ``jms.``.
        imported: the import.
    """
    flag, time_out = options.get(_OPTIMIZE), options.get(_TIME_OUT)
    prefetch = next((name for name in (_PREFETCH + _QUEUE, _PREFETCH + _ALL) if name in options), None)
    if flag is None or not java_boolean(flag):
        if time_out is not None:
            imported.note(None, f"jms.{_TIME_OUT}={time_out} is not carried over: {_OPTIMIZE} is not true")
        if prefetch is not None:
            imported.note(None, f"jms.{prefetch}={options[prefetch]} {_ELSEWHERE}")
        return
    section: dict[str, Any] = {_OPTIMIZE: True}
    if time_out is not None:
        section[_TIME_OUT] = max(0, java_integer(time_out, _LONG) or 0)
    if prefetch is not None:
        section["prefetch"] = max(0, java_integer(options[prefetch], _LONG) or 0)
    imported.top_level |= {"mode": AcknowledgementMode.AUTO.value, "acknowledgement": section}
    imported.note(
        None,
        f"jms.{_OPTIMIZE}={flag} becomes mode: auto, the only mode in which it has an effect; if the client's "
        "sessions are transacted, set mode: transacted and remove it",
    )
