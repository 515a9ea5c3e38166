"""The JSON Schema for editors is current and agrees with the settings."""

import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from kafka_redelivery.topology.config.settings import Settings, json_schema

COMMITTED = Path(__file__).parents[4] / "docs" / "redelivery.schema.json"

GOOD = """\
group: billing
instance: billing-0
kafka: {bootstrap.servers: "localhost:9092", linger.ms: 5, enable.ssl.certificate.verification: true}
sources:
  - topic: orders
    value: {format: avro, schemas: {1: order.avsc}}
    policy: {maximumHandlerDelay: 1h}
outputs: [{topic: totals}]
handler: {callable: "app:handle", slots: 4, ordering: key, deadline: 1.5s, notRetryable: ["app:Bad"]}
mode: transacted
policyEntry:
  redeliveryPolicy: {maximumRedeliveries: -1, useExponentialBackOff: true, backOffMultiplier: 2}
  deadLetterStrategy: {kind: shared, topic: ActiveMQ.DLQ, expiration: 0}
journal: true
topics: {replicationFactor: 3}
limits: {shutdownTimeout: 25s}
metrics: {port: 9100}
"""


KNOWN = {"$ref", "anyOf", "default", "description", "title", "type", "enum", "pattern", "properties", "items"}
KNOWN |= {"additionalProperties", "required", "minimum", "maximum", "exclusiveMaximum", "minLength", "minItems"}
KNOWN |= {"$defs", "$schema"}
TYPES = {"array": list, "boolean": bool, "integer": int, "null": type(None), "object": dict, "string": str}


def refused(schema: dict[str, Any], value: Any, definitions: dict[str, Any], path: str = "") -> Iterator[str]:  # noqa: ANN401
    """Paths that the schema refuses. Fails on keywords that our schema does not use."""
    assert schema.keys() <= KNOWN
    if "$ref" in schema:
        schema = definitions[schema["$ref"].rpartition("/")[2]]
    if "anyOf" in schema and all(list(refused(each, value, definitions)) for each in schema["anyOf"]):
        yield path
    if not fits(schema, value):
        yield path
    elif schema.get("type") == "object":
        yield from (f"{path}.{name}" for name in schema.get("required", ()) if name not in value)
        for name, each in value.items():
            rule = schema.get("properties", {}).get(name, schema.get("additionalProperties", True))
            if rule is False:
                yield f"{path}.{name}"
            elif rule is not True:
                yield from refused(rule, each, definitions, f"{path}.{name}")
    elif schema.get("type") == "array":
        for index, each in enumerate(value):
            yield from refused(schema.get("items", {}), each, definitions, f"{path}.{index}")


def fits(schema: dict[str, Any], value: Any) -> bool:  # noqa: ANN401
    """Whether the schema accepts the value, apart from the values in it."""
    kind = schema.get("type")
    if kind is None:
        return "enum" not in schema or value in schema["enum"]
    if isinstance(value, bool) != (kind == "boolean"):
        return False
    if not isinstance(value, int | float if kind == "number" else TYPES[kind]):
        return False
    if kind in {"integer", "number"}:
        return bool(schema.get("minimum", value) <= value <= schema.get("maximum", value))
    if kind == "array":
        return isinstance(value, list) and len(value) >= int(schema.get("minItems", 0))
    if kind == "string":
        return value in schema.get("enum", [value]) and bool(re.search(schema.get("pattern", ""), str(value)))
    return True


current = cache(json_schema)


def faults(text: str) -> list[str]:
    """Paths that an editor would mark."""
    schema = current()
    return list(refused(schema, json.loads(json.dumps(yaml.safe_load(text))), schema["$defs"]))


def test_the_committed_schema_is_current() -> None:
    """docs/redelivery.schema.json is what ``redelivery config schema`` prints."""
    assert json.loads(COMMITTED.read_text(encoding="utf-8")) == current()


def test_a_good_file_is_accepted_by_both() -> None:
    """Schema and settings accept the same file."""
    assert faults(GOOD) == []
    Settings.model_validate(yaml.safe_load(GOOD), by_alias=True, by_name=False)


def test_a_variable_may_stand_where_a_text_has_a_form() -> None:
    """It is replaced before the file is checked, and an editor must not mark it."""
    text = GOOD.replace("billing-0", "'${POD:billing-0}'").replace("1.5s", "'${DEADLINE}'").replace("25s", "'a ${B} c'")
    assert faults(text) == []


@pytest.mark.parametrize(
    ("before", "after", "path"),
    [
        ("slots: 4", "slots: 0", ".handler"),
        ("slots: 4", "slots: many", ".handler"),
        ("deadline: 1.5s", "deadline: 1.5", ".handler"),
        ("mode: transacted", "mode: fast", ".mode"),
        ("group: billing", "grup: billing", ".group"),
        ("maximumRedeliveries: -1", "maximumRedelivery: 1", ".policyEntry.redeliveryPolicy.maximumRedelivery"),
        ("journal: true", "journal: 3", ".journal"),
        ("sources:\n  - topic: orders\n", "sources:\n  - name: orders\n", ".sources.0.topic"),
        ("port: 9100", "port: 70000", ".metrics.port"),
    ],
)
def test_a_bad_file_is_refused_by_both(before: str, after: str, path: str) -> None:
    """An editor marks the names and types that the settings refuse."""
    bad = GOOD.replace(before, after)
    assert bad != GOOD
    assert path in faults(bad)
    with pytest.raises(ValidationError):
        Settings.model_validate(yaml.safe_load(bad), by_alias=True, by_name=False)
