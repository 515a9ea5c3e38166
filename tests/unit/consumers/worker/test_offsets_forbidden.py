"""A topic whose offsets may not be committed is left out, also if that shows beside refused records."""

import pytest

from kafka_redelivery.transport.errors import (
    OffsetsForbiddenError,
    RefusalCause,
    RefusedRecord,
    WriteAbortedError,
    WriteRefusedError,
)
from tests.unit.consumers.worker.test_worker_lost import Fixture


@pytest.mark.parametrize(
    ("error", "forbidden"),
    [
        (OffsetsForbiddenError("denied", ["orders"], unconfirmed=()), {"orders"}),
        (WriteAbortedError("rebalance", unconfirmed=()), set()),
    ],
)
def test_a_commit_beside_refused_records(
    error: WriteAbortedError, forbidden: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the offsets of all other partitions would be refused with each write."""
    fixture = Fixture()

    def refuse(_: object) -> None:
        raise error

    monkeypatch.setattr(fixture.writer, "finish", refuse)
    fixture.handle()
    fixture.writer.script.append(
        WriteRefusedError([RefusedRecord(0, "no right", RefusalCause.FORBIDDEN)], others_written=True)
    )
    fixture.worker._writes.flush(0)
    assert fixture.reader.forbidden.keys() == forbidden
    assert fixture.observer.commits == []
