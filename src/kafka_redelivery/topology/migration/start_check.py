"""Finds settings that a broker reads but does not start with."""

from __future__ import annotations

import re
from typing import Any

from kafka_redelivery.topology.classic.plugins import SHORTEST_BROKER_DELAY_MS
from kafka_redelivery.topology.java.bounded_pattern import MAX_PATTERN_CHARACTERS
from kafka_redelivery.topology.java.regex import java_pattern
from kafka_redelivery.topology.migration.result import Imported, MigrationError

_DELAYS = ("initialRedeliveryDelay", "redeliveryDelay")


def note_start_errors(section: dict[str, Any], scheduler: str, line: int, imported: Imported) -> None:
    """Add a note for each setting of a redelivery plugin that the broker does not start with.

    Source: ``RedeliveryPlugin.installPlugin``.
    """
    for plugin in section.get("plugins", ()):
        redelivery = plugin.get("redeliveryPlugin")
        if redelivery is None:
            continue
        if scheduler.strip().lower() != "true":
            imported.note(line, "a broker with a redeliveryPlugin starts only with schedulerSupport=true")
        policies = redelivery.get("redeliveryPolicyMap", {})
        entries = [*policies.get("redeliveryPolicyEntries", ()), *filter(None, [policies.get("defaultEntry")])]
        for policy in entries:
            for name in _DELAYS:
                if policy.get(name, SHORTEST_BROKER_DELAY_MS) < SHORTEST_BROKER_DELAY_MS:
                    imported.note(
                        line,
                        f"{name}={policy[name]} is below {SHORTEST_BROKER_DELAY_MS}: it is carried over, but the "
                        "broker does not start with it",
                    )


def drop_only_that_compiles(plugin: dict[str, Any], line: int, imported: Imported) -> dict[str, Any]:
    """Return a discarding plugin without the patterns that are not regular expressions.

    Raises:
        MigrationError: the patterns are too long.
    """
    if len(str(plugin.get("dropOnly") or "")) > MAX_PATTERN_CHARACTERS:
        raise MigrationError(imported.name, "dropOnly is too long", line)
    texts = [text for text in str(plugin.get("dropOnly") or "").split(" ") if text.strip()]
    kept = []
    for text in texts:
        try:
            java_pattern(text)
        except re.error as error:
            imported.note(
                line,
                f"dropOnly {text!r} is left out: it is not a regular expression ({error}), and the broker does not "
                "start with it, unless it is one of the few that only Java accepts",
            )
        else:
            kept.append(text)
    found = dict(plugin)
    if len(kept) < len(texts):
        found["dropOnly"] = " ".join(kept) or None
        if found["dropOnly"] is None:
            del found["dropOnly"]
    if kept and plugin.get("dropAll", True):
        imported.note(
            line, "dropOnly has no effect together with dropAll, which is on by default: all dead letters are dropped"
        )
    return found
