"""docs/handlers.md names everything that a handler gets, and its handlers run as printed."""

import re
from dataclasses import fields
from pathlib import Path

import pytest

from kafka_redelivery import Context, Record

PAGE = (Path(__file__).parents[3] / "docs" / "handlers.md").read_text(encoding="utf-8")
HTTPX = """
class Answer:
    def raise_for_status(self): pass
    def json(self): return {"paid": True}

class AsyncClient:
    closed = []
    def __init__(self, base_url): pass
    async def post(self, path, json, headers): return Answer()
    async def aclose(self): self.closed.append(self)
"""
BANK = """
from types import SimpleNamespace

def charge_all(orders):
    return [answer(each) for each in orders]

def answer(order):
    return SimpleNamespace(refused=order < 0, busy=order == 7, text="negative", receipt={"paid": order})
"""
TESTS = """
import handlers
import httpx
import together
import typed
from kafka_redelivery import HandlerKit, JsonCodec
from shop import Shop

JSON = {"value": JsonCodec(), "outputs": {"receipts": (JsonCodec(), JsonCodec())}}

def ends(amount):
    kit = HandlerKit(handlers.charge, maximum_handler_delay=10**9, **JSON)
    began_ms = kit.now_ms
    return [(type(each.decision).__name__, each.at_ms - began_ms) for each in kit.deliver({"id": 1, "amount": amount})]

def test_charge():
    assert ends(5) == [("Ack", 0)]
    assert ends(-5) == [("DeadLetter", 0)]
    assert ends(5000) == [("Retry", 0), ("Ack", 300_000)]

def test_shop():
    with HandlerKit(Shop, **JSON) as kit:
        for _ in range(2):
            [delivery] = kit.deliver({"id": 1})
            assert delivery.outputs[0].value == b'{"paid":true}'
        assert httpx.AsyncClient.closed == []
    assert len(httpx.AsyncClient.closed) == 1

def test_together():
    kit = HandlerKit(together.charge, maximum_handler_delay=10**9, **JSON)
    paid, refused, busy = kit.deliver_batch([5, -1, 7])
    assert [each.value for each in paid[0].outputs] == [b'{"paid":5}']
    assert refused[0].decision.reason == "rejected"
    assert {later.at_ms - sooner.at_ms for sooner, later in zip(busy, busy[1:])} == {30_000}

def test_typed(capsys):
    kit = HandlerKit(typed.charge, **JSON)
    [delivery] = kit.deliver({"id": 1, "amount": "2.50", "at": "2026-01-01T12:00:00Z"})
    assert delivery.outputs[0].value == b'{"order":1,"paid":"2.50"}'
    [delivery] = kit.deliver({"id": 1, "at": "2026-01-01T12:00:00Z"})
    assert (delivery.attempt, delivery.decision.reason) == (0, "invalid_value")
    assert delivery.failure.message == "$.amount: Field required"
    HandlerKit(typed.count, key=JsonCodec(), **JSON).deliver(None, key="A1")
    assert capsys.readouterr().out == "deleted: A1\\n"
"""


def test_its_handlers_do_what_they_say(pytester: pytest.Pytester) -> None:
    """With a client that connects to nothing."""
    charge, typed, together, shop = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    pytester.makepyfile(
        handlers=charge, typed=typed, together=together, shop=shop, httpx=HTTPX, bank=BANK, test_page=TESTS
    )
    result = pytester.runpytest_subprocess("--import-mode=importlib", "-p", "no:cacheprovider", "-p", "no:randomly")
    result.assert_outcomes(passed=4)


@pytest.mark.parametrize("kind", [Record, Context])
def test_every_attribute_and_method_has_a_row(kind: type[Record | Context]) -> None:
    """And no other: the table is in the section of that name. A row may have several."""
    section = PAGE.split(f"\n## {kind.__name__}\n")[1].split("\n## ")[0]
    cells = re.findall(r"^\| (`.+?) \| ", section, re.MULTILINE)
    rows = [re.split(r"\W", name, maxsplit=1)[0] for cell in cells for name in re.findall("`(.+?)`", cell)]
    public = {field.name for field in fields(kind)} | {name for name in vars(kind) if not name.startswith("_")}
    assert sorted(rows) == sorted(public)
