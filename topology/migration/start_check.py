"""What a broker would refuse when it starts, though it can read its file."""

from __future__ import annotations

import re
from typing import Any

from topology.classic.java_regex import java_pattern
from topology.classic.plugins import SHORTEST_BROKER_DELAY_MS
from topology.foreign_pattern import LONGEST
from topology.migration.result import Imported, MigrationError, place

_DELAYS = ("initialRedeliveryDelay", "redeliveryDelay")


def note_start_errors(section: dict[str, Any], scheduler: str, line: int, imported: Imported) -> None:
    """Note what of the redelivery plugin keeps the broker from starting.

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
                        f"{name}={policy[name]} is below {SHORTEST_BROKER_DELAY_MS}: a broker does not start with it; "
                        "it is carried over as it is",
                    )


def drop_only_that_compiles(plugin: dict[str, Any], line: int, imported: Imported) -> dict[str, Any]:
    """A discarding plugin without the patterns that are no regular expressions.

    Raises:
        MigrationError: there are more than can be meant.
    """
    if len(str(plugin.get("dropOnly") or "")) > LONGEST:
        raise MigrationError(place(imported.name, line), "dropOnly is longer than can be meant")
    texts = [text for text in str(plugin.get("dropOnly") or "").split(" ") if text.strip()]
    kept = []
    for text in texts:
        try:
            java_pattern(text)
        except re.error as error:
            imported.note(
                line,
                f"dropOnly {text!r} is no regular expression ({error}): left out; a broker does not start with it, "
                "unless it is one of the few that only Java knows",
            )
        else:
            kept.append(text)
    found = dict(plugin)
    if len(kept) < len(texts):
        found["dropOnly"] = " ".join(kept) or None
        if found["dropOnly"] is None:
            del found["dropOnly"]
    if kept and plugin.get("dropAll", True):
        imported.note(line, "dropOnly has no effect beside dropAll, which is on by default: everything is dropped")
    return found
