"""What a connection URI says about acknowledgement.

The mode itself is not in it: a client chooses that with ``createSession``. But ``optimizeAcknowledge`` acts in mode
``auto`` alone, so who sets it uses that mode.

Source: ``ActiveMQMessageConsumer``, which takes the flag from the connection if its session is ``AUTO_ACKNOWLEDGE``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from topology.acknowledgement import AcknowledgementMode
from topology.migration.java_text import java_boolean, java_integer
from topology.migration.result import Imported

_OPTIMIZE, _TIME_OUT = "optimizeAcknowledge", "optimizeAcknowledgeTimeOut"
_QUEUE, _ALL = "queuePrefetch", "all"
_PREFETCH = "prefetchPolicy."
CARRIED = frozenset({_OPTIMIZE, _TIME_OUT, _QUEUE, _ALL})
"""Properties whose notes are made here."""

_LONG = 2**63
_ELSEWHERE = "is not carried over: it matters here for optimizeAcknowledge and mode dups_ok alone"


def carry_acknowledgement(options: Mapping[str, str | None], imported: Imported) -> None:
    """Carry the options over.

    Args:
        options: those that the connection factory takes, without ``jms.``.
        imported: what the import came to.
    """
    flag, time_out = options.get(_OPTIMIZE), options.get(_TIME_OUT)
    prefetch = next((name for name in (_PREFETCH + _QUEUE, _PREFETCH + _ALL) if name in options), None)
    if flag is None or not java_boolean(flag):
        if time_out is not None:
            imported.note(None, f"jms.{_TIME_OUT}={time_out} is not carried over: {_OPTIMIZE} is not on")
        if prefetch is not None:
            imported.note(None, f"jms.{prefetch}={options[prefetch]} {_ELSEWHERE}")
        return
    section: dict[str, Any] = {_OPTIMIZE: True}
    if time_out is not None:
        section[_TIME_OUT] = max(0, java_integer(time_out, _LONG) or 0)
    if prefetch is not None:
        section["prefetch"] = max(0, java_integer(options[prefetch], _LONG) or 0)
    imported.whole |= {"mode": AcknowledgementMode.AUTO.value, "acknowledgement": section}
    imported.note(
        None,
        f"jms.{_OPTIMIZE}={flag} becomes mode: auto, the only one it acts in; a client that makes its sessions "
        "transacted needs mode: transacted without it",
    )
