"""Records of an older Avro schema, and moments that Python cannot represent, are handled and passed on."""

import json
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

from kafka_redelivery import AvroCodec
from tests.scenarios.cluster import Sent
from tests.scenarios.running import Group

MONEY = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
ID = "7f0c1f86-6ae3-4d05-8c21-5c5a0ef0f4cb"
ADDED: list[dict[str, Any]] = [
    {"name": "total", "type": MONEY, "default": "\u0001"},
    {"name": "scan", "type": "bytes", "default": "ÿ"},
    {"name": "ref", "type": {"type": "string", "logicalType": "uuid"}, "default": ID},
    {"name": "paid", "type": {"type": "long", "logicalType": "timestamp-millis"}, "default": 0},
]
VALUES: list[dict[str, Any]] = [
    {"until": datetime(2026, 11, 28, 12, tzinfo=UTC), "currency": {"code": "EUR"}},
    {"until": 2**63 - 1, "currency": {"code": "USD"}},
]


def test_old_records_and_odd_moments_are_passed_on(group: Group) -> None:
    """The reader schema is a file as for Java: with comments, and with a name of the null namespace."""
    fields: list[dict[str, Any]] = [
        {"name": "until", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "currency", "type": {"type": "Currency"}},
    ]
    currency = {"type": "record", "name": "Currency", "fields": [{"name": "code", "type": "string"}]}
    old = {"type": "record", "name": "Order", "namespace": "shop", "fields": fields}
    new = {**old, "fields": fields + ADDED}
    for name, schema in {"Currency": currency, "old": old, "new": new}.items():
        (group.folder / f"{name}.avsc").write_text(f"/* shop */\n{json.dumps(schema)} // {name}\n", encoding="utf-8")
    files = {"7": "old.avsc", "8": "new.avsc"}
    group.prepare(
        sources=[{"topic": group.source, "value": {"format": "avro", "schemas": files, "reader": "new.avsc"}}],
        outputs=[{"topic": group.output, "value": {"format": "avro", "schemas": files, "writeId": 8}}],
        handler={"callable": "tests.scenarios.handlers:passing_on"},
        policyEntry={"redeliveryPolicy": {"maximumRedeliveries": 0}},
    )
    group.cluster.produce(
        group.source,
        [
            Sent(AvroCodec.of({7: group.folder / "old.avsc"}).encode(value), b"%d" % n, [], 0)
            for n, value in enumerate(VALUES)
        ],
    )
    group.worker()
    group.settle()
    group.stop()

    added = {
        "total": Decimal("0.01"),
        "scan": b"\xff",
        "ref": UUID(ID),
        "paid": datetime(1970, 1, 1, tzinfo=UTC),
    }
    codec = AvroCodec.of({8: group.folder / "new.avsc"})
    written = {record.key: codec.decode(record.value) for record in group.cluster.read_written(group.output)}
    assert written == {b"%d" % n: value | added for n, value in enumerate(VALUES)}
    assert group.cluster.read(group.dead_letters) == []
