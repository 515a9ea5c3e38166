"""The screen of `redelivery status` says what waits, until when, and why."""

from io import StringIO

from rich.console import Console

from kafka_redelivery.cli.commands.status import print_status, status_document
from kafka_redelivery.consumers.operations.outages import dependency_states
from kafka_redelivery.consumers.operations.pausing import AppliedPauses
from kafka_redelivery.consumers.operations.status import GroupStatus, Member, TopicBacklog, WaitsForDependency
from kafka_redelivery.topology.config.loading import load_settings
from kafka_redelivery.topology.wire.outages import OutageNote, OutageState, outage_record
from kafka_redelivery.topology.wire.pauses import Applied, Pauses, ProcessName

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


CONFIGURATION = """
group: billing
kafka: {bootstrap.servers: "127.0.0.1:1"}
sources: [{topic: orders, dependencies: [bank, books]}, {topic: refunds, dependencies: [bank]}]
dependencies: {bank: {}, books: {}}
"""


def test_an_outage_says_since_when_who_says_so_and_what_waits() -> None:
    """What an operator has opened before what a worker has found; an operator's closing ends both."""
    found = OutageNote("a", OutageState.OPEN, "w1", 1_000, 200_000)
    opened = OutageNote("b", OutageState.OPEN, "ann@desk", 60_000, 120_000, operator=True)
    known = [Pauses().with_record(*outage_record("bank", found, 0), 0)]
    known.append(known[-1].with_record(*outage_record("bank", opened, 0), 1))
    known.append(known[-1].with_record(*outage_record("bank", opened._replace(state=OutageState.CLOSED), 0), 2))
    known.append(known[-1].with_record(*outage_record("bank", found, 0), 3))
    settings = load_settings(CONFIGURATION)

    texts = [str(dependency_states(settings, each, 100_000)[0]) for each in known]
    assert texts[0] == "bank is away since 1970-01-01 00:00:01 UTC, as worker w1 says"
    assert texts[1] == "bank is away since 1970-01-01 00:01:00 UTC, as ann@desk says, until 1970-01-01 00:02:00 UTC"
    assert texts[2:] == ["bank is not away", texts[0]]
    assert str(dependency_states(settings, known[1], 130_000)[0]) == texts[0]
    assert dependency_states(settings, known[1], 300_000)[0].opened is None

    waits = tuple(WaitsForDependency(each, 41_000) for each in dependency_states(settings, known[1], 100_000))
    status = GroupStatus("billing", 0, AppliedPauses((), 0, {}, None), (), (), {}, (), waits)
    console = Console(file=StringIO(), width=80)
    print_status(console, status)
    assert f"outage: {texts[1]}; at most 41,000 records of orders, refunds wait\n" in console.file.getvalue()  # type: ignore[attr-defined] # a StringIO
    bank, books = status_document(status)["outages"]
    assert (bank["state"], bank["by"], bank["untilMs"], bank["waiting"]) == ("open", "ann@desk", 120_000, 41_000)
    assert books == {"dependency": "books", "state": "closed", "sources": ["orders"], "waiting": 41_000}


def test_a_process_without_an_instance_has_applied_what_all_have() -> None:
    """Kafka shows its member id and not its random name. If one process lags, it may be this one."""

    def shown(*offsets: int) -> str:
        notes = {ProcessName("worker", f"random-{number}"): Applied(each, 0) for number, each in enumerate(offsets)}
        members = (Member("billing", "rdkafka-1", 3), Member("billing.scheduler", "rdkafka-2", 3))
        screen, seen = StringIO(), AppliedPauses((), 4, notes, 2)
        print_status(Console(file=screen, width=200), GroupStatus("billing", 0, seen, members, (), {}, ()))
        return screen.getvalue()

    assert shown(4, 4).count("4 of 4") == 2
    assert shown(4, 3).count("unknown") == 2
    assert shown(4, 4, 4).count("unknown") == 2
