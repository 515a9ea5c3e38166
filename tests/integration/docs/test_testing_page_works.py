import json
import re
from pathlib import Path

import pytest

from kafka_redelivery import AvroCodec
from kafka_redelivery.topology.policy.decision import DeadLetter, Failure, FailureKind, Reason
from kafka_redelivery.topology.policy.lineage import Lineage
from kafka_redelivery.topology.redrive.exported import ExportedLetter
from kafka_redelivery.topology.wire.headers import dead_letter_headers
from tests.plugin import LOADED

PAGE = (Path(__file__).parents[3] / "docs" / "testing.md").read_text()


def blocks(language: str) -> list[str]:
    """Code blocks of the page in a language."""
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


def test_its_handler_passes_its_tests(pytester: pytest.Pytester) -> None:
    """Configuration, schema, handler and tests run as printed; the letter is one of the handler's orders."""
    _, handler, test, _, of_letters = blocks("python")
    [configuration], [order] = blocks("yaml"), blocks("json")
    tests = {"test_charge": test, "test_letters": of_letters}
    pytester.makepyfile(handlers=handler, **tests)
    value = AvroCodec.of({7: json.loads(order)}).encode({"id": "A1", "amount": 2000})
    failed = DeadLetter(Reason.REDELIVERIES_EXCEEDED, Failure(FailureKind.RAISED, "ConnectionError", "no answer"))
    headers = dead_letter_headers(Lineage("orders", 0, 17, 0, deliveries=3), "billing", [], failed, 0)
    letter = ExportedLetter("DLQ.orders-0@4", 0, None, value, headers).document("orders-0@17")
    files = {
        "redelivery.yaml": configuration,
        "order.avsc": order,
        "letters.jsonl": json.dumps(letter),
    }
    for name, text in files.items():
        (pytester.path / name).write_text(text)
    result = pytester.runpytest_subprocess("--import-mode=importlib", *LOADED)
    result.assert_outcomes(passed=2)


def test_the_bytes_are_those_of_the_codec() -> None:
    """The page shows what a producer writes."""
    shown = "".join(re.findall(r"^((?:[0-9a-f]{2} )+) ", PAGE, re.MULTILINE))
    codec = AvroCodec.of({7: json.loads(blocks("json")[0])})
    assert codec.encode({"id": "A1", "amount": 2000}) == bytes.fromhex(shown)
