"""The screen of `redelivery status` says what waits, until when, and why."""

from io import StringIO

from rich.console import Console

from kafka_redelivery.cli.views.status import print_status, status_document
from kafka_redelivery.consumers.operations.pausing import AppliedPauses
from kafka_redelivery.consumers.operations.status import GroupStatus, TopicBacklog

TIER = TopicBacklog(
    "billing.retry.10m", "tier", 41, {"within 1h": 41}, 0, 41, {"ConnectionError": 40, "TimeoutError": 1}
)


def test_a_tier_says_why_its_records_wait() -> None:
    """As text and as JSON; a source has no causes."""
    source = TopicBacklog("orders", "source", 3)
    found = GroupStatus("billing", 0, AppliedPauses((), 0, {}, None), (), (source, TIER), {}, ())
    console = Console(file=StringIO(), width=200)
    print_status(console, found)
    assert "40 ConnectionError, 1 TimeoutError" in console.file.getvalue()  # type: ignore[attr-defined] # a StringIO
    of_source, of_tier = status_document(found)["unfinished"]
    assert "causes" not in of_source
    assert of_tier["causes"] == {"ConnectionError": 40, "TimeoutError": 1}
