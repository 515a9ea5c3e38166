"""Templates are compiled once, and not for the console of each test, which takes longer than most of these tests."""

from functools import partial
from types import CodeType

import pytest
from jinja2 import BytecodeCache, Environment
from jinja2.bccache import Bucket

from kafka_redelivery.cli.console import rendering

_COMPILED: dict[str, CodeType | None] = {}


class _Compiled(BytecodeCache):
    def load_bytecode(self, bucket: Bucket) -> None:
        bucket.code = _COMPILED.get(bucket.key)

    def dump_bytecode(self, bucket: Bucket) -> None:
        _COMPILED[bucket.key] = bucket.code


@pytest.fixture(autouse=True)
def compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep what was compiled."""
    monkeypatch.setattr(rendering, "Environment", partial(Environment, bytecode_cache=_Compiled()))
