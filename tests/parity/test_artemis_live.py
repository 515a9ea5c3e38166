"""A message that fails has the same outcome as in the real Artemis (live runs)."""

from kafka_redelivery.topology.classic.destination import without_kind
from kafka_redelivery.topology.config.artemis_section import ArtemisSection
from kafka_redelivery.topology.resolution.artemis import ArtemisResolution, resolve_artemis
from kafka_redelivery.topology.topics.naming import kafka_topic
from tests.every import every
from tests.parity.differences import DIFFERENCES
from tests.parity.effects import Dialect
from tests.parity.recordings import Case, cases
from tests.parity.simulation import MODES_WITHOUT_CONSUMER, SENT, MessageOutcome, simulate, topic_of

ALL = cases("artemis_dlq.json", "cases")

TOLERANCE_MS = 5
"""A recorded gap may be this many milliseconds shorter than the delay."""


def resolved(given: Case) -> ArtemisResolution:
    """Resolve the case's settings for its address."""
    address = without_kind(given.get("destination", "queue:orders"))
    settings = [{"match": each["match"], **each["settings"]} for each in given.get("address_settings", ())]
    section = ArtemisSection.model_validate({"address-settings": settings}, by_alias=True, by_name=False)
    return resolve_artemis(section.value(), address, kafka_topic(address))


def simulated(found: ArtemisResolution, given: Case) -> list[MessageOutcome]:
    """Simulate each message that fails."""
    poison = [
        number for number in range(given.get("messages", 1)) if f"m{number}" in given.get("poison", [f"m{number}"])
    ]
    return [
        simulate(
            found.entry,
            given.get("mode", "transacted-rollback"),
            Dialect.ARTEMIS,
            ttl_ms=given.get("ttl_ms", 0),
            persistent=given.get("persistent", True),
            stop_after=given.get("stop_after", 14),
        )
        for _ in poison
    ]


@every([(case,) for case in ALL if case["id"] not in DIFFERENCES])
def test_a_failing_message_has_the_recorded_outcome(case: Case) -> None:
    """The number of deliveries, the least delays and the topics of dead or expired messages are the recorded ones."""
    given, recorded_outcome = case["input"], case["outcome"]
    found = resolved(given)
    outcomes = simulated(found, given)
    good = given.get("messages", 1) - len(outcomes)
    assert sum(outcome.delivered for outcome in outcomes) + good == recorded_outcome["total_deliveries"]
    assert any(outcome.stopped for outcome in outcomes) == recorded_outcome["stopped_by_harness"]
    if given.get("messages", 1) == 1 and outcomes and given.get("mode") not in MODES_WITHOUT_CONSUMER:
        gaps = [delivery["gap_ms"] for delivery in recorded_outcome["deliveries"][1:]]
        assert all(delay <= gap + TOLERANCE_MS for delay, gap in zip(outcomes[0].delays, gaps, strict=False))
    topic = kafka_topic(found.address)
    topics = [topic_of(found.entry, outcome, topic) for outcome in outcomes]
    expected = [kafka_topic(letter["queue"]) for letter in recorded_outcome["dead_letters"]]
    assert sorted(filter(None, topics)) == sorted(expected)


STORED = [case for case in ALL if case["outcome"].get("stored_expiration_minus_send_time_ms_approx")]


@every([(case,) for case in STORED])
def test_a_message_has_the_recorded_expiration(case: Case) -> None:
    """The expiration is the message's own, or is set by expiry-delay and its bounds."""
    given = case["input"]
    entry = resolved(given).entry
    ttl = given.get("ttl_ms", 0)
    expiration = entry.expiration_ms(SENT + ttl if ttl else 0, SENT)
    life = expiration - SENT if expiration else 0
    assert {life} == set(case["outcome"]["stored_expiration_minus_send_time_ms_approx"])


LETTERS = [
    (case, letter) for case in ALL for letter in case["outcome"]["dead_letters"][:1] if case["id"] not in DIFFERENCES
]


@every(LETTERS, lambda case, _: case["id"])
def test_a_dead_letter_has_the_recorded_headers(case: Case, letter: Case) -> None:
    """A dead letter has no expiration any more; an expired one has the time at which it was found expired."""
    outcome = simulated(resolved(case["input"]), case["input"])[0]
    headers = dict(outcome.headers)
    if letter["expiration"] == 0:
        assert "JMSExpiration" not in headers
    assert ("_AMQ_ACTUAL_EXPIRY" in headers) == ("_AMQ_ACTUAL_EXPIRY" in letter["properties"])
    assert {"_AMQ_ORIG_ADDRESS", "_AMQ_ORIG_QUEUE", "_AMQ_ORIG_MESSAGE_ID"} <= headers.keys()


def test_all_cases_are_replayed_or_in_the_table() -> None:
    """No case is left out silently, and the table names no case that does not exist."""
    known = {case["id"] for case in ALL}
    named = {case for case in DIFFERENCES if case.startswith("adlq-")}
    assert len(known) == len(ALL)
    assert named <= known
    assert len(named) < len(ALL) / 3
