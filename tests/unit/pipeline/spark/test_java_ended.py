"""Spark's JVM ends, as after an OutOfMemoryError: the command says so instead of an internal error."""

import subprocess
import sys
from typing import Any

import pytest

from kafka_redelivery.pipeline.errors import JavaEndedError
from kafka_redelivery.pipeline.spark.session import noticing_end_of_java
from kafka_redelivery.topology import exit_codes


class Session:
    """A session whose JVM is another program."""

    def __init__(self, *, answers: bool, process: object) -> None:
        """Connect to nothing."""
        self.sparkContext = self._jvm = self.System = self._gateway = self
        self.proc = process
        self._answers = answers

    def currentTimeMillis(self) -> int:  # noqa: N802 - Java's name
        """Answer, or fail as py4j does."""
        if not self._answers:
            raise ConnectionRefusedError(111, "Connection refused")
        return 1


@pytest.mark.parametrize(("query", "fix"), [(False, ""), (True, ", or lower pipeline.maxOffsetsPerTrigger,")])
def test_the_error_names_what_helps(*, query: bool, fix: str) -> None:
    """Smaller micro-batches help a query alone. The exit code is that of a command that failed."""
    with subprocess.Popen([sys.executable, "-c", "raise SystemExit(52)"]) as process:
        session: Any = Session(answers=False, process=process)
        with (
            pytest.raises(JavaEndedError) as ended,
            noticing_end_of_java(session),
            noticing_end_of_java(session, query=query),
        ):
            raise ConnectionRefusedError(111, "Connection refused")
    assert str(ended.value).startswith(
        f"Spark's JVM has ended (out of memory): raise spark.driver.memory{fix} and start it again"
    )
    assert ended.value.exit_code == exit_codes.FAILED


@pytest.mark.parametrize(("answers", "process"), [(True, object()), (False, None)])
def test_other_errors_stay_as_they_are(*, answers: bool, process: object) -> None:
    """The JVM runs, or spark-submit has started it and this process ends with it."""
    session: Any = Session(answers=answers, process=process)
    with pytest.raises(KeyError), noticing_end_of_java(session):
        raise KeyError("other")
