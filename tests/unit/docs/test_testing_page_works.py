import json
import re
from pathlib import Path

import pytest

from kafka_redelivery import AvroCodec

PAGE = (Path(__file__).parents[3] / "docs" / "testing.md").read_text()


def blocks(language: str) -> list[str]:
    """Code blocks of the page in a language."""
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


def test_its_handler_passes_its_tests(pytester: pytest.Pytester) -> None:
    """Configuration, schemas, handler and tests run as printed."""
    handler, test = blocks("python")
    [configuration] = blocks("yaml")
    order, receipt = blocks("json")
    pytester.makepyfile(handlers=handler, test_charge=test)
    files = {"redelivery.yaml": configuration, "order.avsc": order, "receipt.avsc": receipt}
    for name, text in files.items():
        (pytester.path / name).write_text(text)
    result = pytester.runpytest_subprocess("--import-mode=importlib", "-p", "no:cacheprovider", "-p", "no:randomly")
    result.assert_outcomes(passed=2)


def test_the_bytes_are_those_of_the_codec() -> None:
    """The table shows what a producer writes."""
    shown = "".join(re.findall(r"^\| `([0-9a-f ]+)` \|", PAGE, re.MULTILINE))
    codec = AvroCodec.of({7: json.loads(blocks("json")[0])})
    assert codec.encode({"id": "A1", "amount": 2000}) == bytes.fromhex(shown)
