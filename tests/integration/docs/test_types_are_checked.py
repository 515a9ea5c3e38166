"""What users write passes ``mypy --strict``: README and its test as printed, and typed handlers. Wrong ones do not."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
README = (ROOT / "README.md").read_text(encoding="utf-8")
TESTING = (ROOT / "docs/testing.md").read_text(encoding="utf-8")
HANDLERS = (ROOT / "docs" / "handlers.md").read_text(encoding="utf-8")
BANK = """
from typing import Any

def charge(order: dict[str, Any]) -> dict[str, Any]:
    return order
"""
RIGHT = """
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from kafka_redelivery import Ack, Batch, Context, DeadLetter, HandlerKit, JsonCodec, Record


@dataclass
class Order:
    id: int
    note: str | None = None


def of_a_record(record: Record[Order], context: Context) -> None:
    note: str = record.value.note or record.message_id
    context.send("receipts", record.value, key=note)


def of_a_value(order: Order, context: Context) -> None:
    key: bytes | None = context.record.raw_key
    context.send("receipts", {"order": order.id}, key=key)


def of_tombstones(record: Record[Order | None]) -> None:
    assert record.value is None or record.value.id


def of_batches(batch: Batch[Order]) -> None:
    for record in batch:
        note: str | None = record.value.note
        batch.send(record, "receipts", note)
    batch.retry(batch[0], after=timedelta(seconds=1))
    batch.fail(batch[0], ValueError("no"))


async def of_anything(record: Record) -> None:
    value: dict[str, Any] = record.value
    value["id"] += 1


class Shop:
    def __call__(self, order: Order) -> None: ...


def decided(kit: HandlerKit) -> str:
    decision = kit.deliver(Order(1))[-1].decision
    if isinstance(decision, DeadLetter):
        return decision.reason
    assert isinstance(decision, Ack)
    return ""


KITS = [HandlerKit(each, value=JsonCodec()) for each in (of_a_record, of_a_value, of_tombstones, of_anything, Shop)]
TOGETHER = HandlerKit(of_batches, value=JsonCodec()).deliver_batch([Order(1), Order(2)], keys=[b"1", b"2"])
"""
WRONG = """
from dataclasses import dataclass

from kafka_redelivery import Batch, Context, HandlerKit, Record


@dataclass
class Order:
    id: int


def of_a_field(record: Record[Order]) -> None:
    record.value.amount  # error: attr-defined


def of_a_tombstone(record: Record[Order | None]) -> None:
    record.value.id  # error: union-attr


def of_a_dict(order: Order, context: Context) -> None:
    order["id"]  # error: index
    context.send("receipts")  # error: call-arg
    context.record.value_type  # error: attr-defined


def of_a_batch(batch: Batch[Order], others: Batch[int]) -> None:
    batch[0].value.amount  # error: attr-defined
    batch.fail(batch[0], "no")  # error: arg-type
    batch.reject(others[0], "no")  # error: arg-type


def of_a_kit(kit: HandlerKit) -> None:
    kit.deliver(1)[0].decision.reason  # error: union-attr


def other(record: Record[int]) -> None: ...


def passed_on(record: Record[Order]) -> None:
    other(record)  # error: arg-type
"""


@pytest.mark.slow
def test_strict_type_checking_of_what_users_write(tmp_path: Path, pytestconfig: pytest.Config) -> None:
    """No error in right code, and one in each wrong line."""
    [handler] = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    test = re.findall(r"```python\n(.*?)```", TESTING, re.DOTALL)[0]
    [typed] = re.findall(r"```python\n(# typed.py\n.*?)```", HANDLERS, re.DOTALL)
    files = {"handlers": handler, "test_charge": test, "bank": BANK, "typed": typed, "right": RIGHT, "wrong": WRONG}
    for name, text in files.items():
        (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
    assert pytestconfig.cache is not None
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--config-file="]
    command += ["--cache-dir", str(pytestconfig.cache.mkdir("mypy")), "."]
    found = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert found.stderr == ""
    errors = re.findall(r"^(\w+)\.py:(\d+): error: .*\[([\w-]+)\]$", found.stdout, re.MULTILINE)
    marked = enumerate(WRONG.splitlines(), 1)
    wanted = [("wrong", str(number), line.partition("# error: ")[2]) for number, line in marked if "# error: " in line]
    assert list(dict.fromkeys(errors)) == wanted, found.stdout
