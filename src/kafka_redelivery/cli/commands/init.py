"""`redelivery init`: writes a service that works, to start from."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Annotated, Final

import typer

from kafka_redelivery.cli.output import print_text
from kafka_redelivery.topology.config.settings import json_schema

_SCHEMA: Final = "redelivery.schema.json"
_IGNORED: Final = ".gitignore"

_CONFIGURATION: Final = f"""\
# yaml-language-server: $schema={_SCHEMA}
# Reads orders, writes receipts. Every setting: docs/reference/settings.md of kafka-redelivery; after an upgrade write
# the schema anew: redelivery config schema > {_SCHEMA}
group: GROUP
kafka:
  bootstrap.servers: localhost:9092
sources:
  - {{topic: orders, value: {{format: json}}}}
outputs:
  - {{topic: receipts, value: {{format: json}}}}
handler:
  callable: handlers:charge
policyEntry:
  redeliveryPolicy: # redelivered after 1, 2, 4 and 8 seconds, then dead-lettered
    maximumRedeliveries: 4
    initialRedeliveryDelay: 1000
    useExponentialBackOff: true
    backOffMultiplier: 2
"""

_HANDLERS: Final = '''\
"""Handles orders. A handler is a plain function, sync or async."""

from kafka_redelivery import Context, Record, Reject


def charge(record: Record, context: Context) -> None:
    """Charge one order. If it returns, the order is acknowledged; if it raises, the policy redelivers the order."""
    order = record.value
    if order["amount"] < 0:
        raise Reject("a negative amount")  # no redelivery could succeed: a dead letter at once
    # Written only if this function succeeds, in the transaction that acknowledges the order.
    context.send("receipts", {"order": order["id"], "amount": order["amount"]}, key=record.key)
'''

_TESTS: Final = '''\
"""Tests of the handler with the formats and the policy of redelivery.yaml, without Kafka and without waiting."""

from collections.abc import Callable

from kafka_redelivery import Ack, DeadLetter, HandlerKit

MakeKit = Callable[..., HandlerKit]


def test_an_order_is_charged(redelivery_kit: MakeKit) -> None:
    """Its receipt is written."""
    [delivery] = redelivery_kit().deliver({"id": "A1", "amount": 5})
    assert delivery.decision == Ack()
    [receipt] = delivery.outputs
    assert (receipt.topic, receipt.value) == ("receipts", b'{"order":"A1","amount":5}')


def test_a_negative_amount_is_a_dead_letter(redelivery_kit: MakeKit) -> None:
    """At the first delivery."""
    [delivery] = redelivery_kit().deliver({"id": "A1", "amount": -5})
    assert isinstance(delivery.decision, DeadLetter)
    assert delivery.decision.reason == "rejected"


def test_an_order_without_an_amount_is_delivered_five_times(redelivery_kit: MakeKit) -> None:
    """The handler raises each time, so the policy redelivers it, and then it is a dead letter."""
    deliveries = redelivery_kit().deliver({"id": "A1"})
    assert [delivery.attempt for delivery in deliveries] == [1, 2, 3, 4, 5]
    assert isinstance(deliveries[-1].decision, DeadLetter)
    assert deliveries[-1].decision.reason == "redeliveries_exceeded"
'''

_COMPOSE: Final = """\
# A Kafka for development: `docker compose up --wait`. It is at localhost:9092, one node without authentication.
services:
  kafka:
    image: apache/kafka:4.4.0
    ports: ["127.0.0.1:9092:9092"]
    environment:
      KAFKA_NODE_ID: "1"
      KAFKA_PROCESS_ROLES: broker,controller
      KAFKA_LISTENERS: EXTERNAL://:9092,INTERNAL://:19092,CONTROLLER://:9093
      KAFKA_ADVERTISED_LISTENERS: EXTERNAL://localhost:9092,INTERNAL://kafka:19092
      KAFKA_LISTENER_SECURITY_PROTOCOL_MAP: EXTERNAL:PLAINTEXT,INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT
      # With the external listener the broker cannot reach itself, and transactions hang.
      KAFKA_INTER_BROKER_LISTENER_NAME: INTERNAL
      KAFKA_CONTROLLER_LISTENER_NAMES: CONTROLLER
      KAFKA_CONTROLLER_QUORUM_VOTERS: 1@localhost:9093
      KAFKA_AUTO_CREATE_TOPICS_ENABLE: "false"
      KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR: "1"
      KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR: "1"
      KAFKA_TRANSACTION_STATE_LOG_MIN_ISR: "1"
      KAFKA_SHARE_COORDINATOR_STATE_TOPIC_REPLICATION_FACTOR: "1"
      KAFKA_SHARE_COORDINATOR_STATE_TOPIC_MIN_ISR: "1"
      KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS: "0"
      KAFKA_CONTROLLED_SHUTDOWN_ENABLE: "false"
      KAFKA_LOG_DIRS: /var/lib/kafka/data
    volumes:
      - kafka:/var/lib/kafka/data
    healthcheck: # healthy once it has the topics of the service
      test:
        - CMD
        - bash
        - -c
        - >-
          for topic in orders receipts; do
          /opt/kafka/bin/kafka-topics.sh --bootstrap-server localhost:19092 --create --if-not-exists
          --topic $$topic --partitions 3; done
      interval: 5s
      timeout: 30s
      retries: 10
volumes:
  kafka:
"""

_IGNORE: Final = """\
.venv/
__pycache__/
.pytest_cache/
"""


def init(
    folder: Annotated[
        Path, typer.Argument(metavar="[FOLDER]", help="Where to write it; created if it does not exist. Default: here.")
    ] = Path(),
) -> None:
    """Write a service to start from: a configuration, a handler, its tests, and a Compose file with a Kafka.

    The configuration names its schema, so that editors complete and check it. Nothing is written if one of the files
    exists; only an existing .gitignore stays as it is.
    """
    files = {
        "redelivery.yaml": _CONFIGURATION.replace("GROUP", _group(folder)),
        "handlers.py": _HANDLERS,
        "test_handlers.py": _TESTS,
        "compose.yaml": _COMPOSE,
        _SCHEMA: json.dumps(json_schema(), indent=2) + "\n",
    }
    if folder.exists() and not folder.is_dir():
        raise typer.BadParameter(f"{folder} is not a folder", param_hint="FOLDER")
    if taken := [name for name in files if (folder / name).exists()]:
        raise typer.BadParameter(
            f"{', '.join(taken)} exist in {folder.absolute()}, so nothing was written; name another folder",
            param_hint="FOLDER",
        )
    if not (folder / _IGNORED).exists():
        files[_IGNORED] = _IGNORE
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
        print_text(f"wrote {folder / name}")
    print_text(f"\nnext, in {folder.absolute()}:")
    print_text("  pip install pytest && python -m pytest       tests the handler, without Kafka")
    print_text("  docker compose up --wait                     starts a Kafka with the topics")
    print_text("  redelivery topology apply && redelivery run  creates the topics of the group, and handles orders")
    print_text("\nA Kafka without Docker: redelivery broker --port 9092 --topic orders=3 --topic receipts=3")


def _group(folder: Path) -> str:
    """Return the name of the folder as the name of a group, from which names of topics are built."""
    return re.sub(r"[^A-Za-z0-9_-]+", "-", folder.absolute().resolve().name).strip("-_") or "service"
