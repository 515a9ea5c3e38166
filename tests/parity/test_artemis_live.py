"""A message that fails ends here as it ended in the real Artemis (live runs)."""

import pytest

from tests.parity.differences import differences
from tests.parity.recordings import Case, cases
from tests.parity.simulation import SENT, UNREAD, Story, tell, topic_of
from topology.acknowledgement import Dialect
from topology.artemis.resolution import ArtemisResolution, resolve_artemis
from topology.artemis.settings import ArtemisSection
from topology.classic.destination import without_kind
from topology.kafka_names import kafka_topic

ALL = cases("artemis_dlq.json", "cases")

TOLERANCE_MS = 5
"""A recorded gap is a lower bound within a few milliseconds."""


def resolved(given: Case) -> ArtemisResolution:
    """What the case's settings say of its address."""
    address = without_kind(given.get("destination", "queue:orders"))
    settings = [{"match": each["match"], **each["settings"]} for each in given.get("address_settings", ())]
    section = ArtemisSection.model_validate({"address-settings": settings}, by_alias=True, by_name=False)
    return resolve_artemis(section.value(), address, kafka_topic(address))


def stories(found: ArtemisResolution, given: Case) -> list[Story]:
    """What becomes of each message that fails."""
    poison = [
        number for number in range(given.get("messages", 1)) if f"m{number}" in given.get("poison", [f"m{number}"])
    ]
    return [
        tell(
            found.entry,
            given.get("mode", "transacted-rollback"),
            Dialect.ARTEMIS,
            ttl_ms=given.get("ttl_ms", 0),
            persistent=given.get("persistent", True),
            stop_after=given.get("stop_after", 14),
        )
        for _ in poison
    ]


@pytest.mark.parametrize("case", [pytest.param(case, id=case["id"]) for case in ALL if case["id"] not in differences()])
def test_a_failing_message_ends_as_recorded(case: Case) -> None:
    """As often delivered, after delays at least as long, its dead letter or the expired message in the same place."""
    given, outcome = case["input"], case["outcome"]
    found = resolved(given)
    told = stories(found, given)
    good = given.get("messages", 1) - len(told)
    assert sum(story.delivered for story in told) + good == outcome["total_deliveries"]
    assert any(story.stopped for story in told) == outcome["stopped_by_harness"]
    if given.get("messages", 1) == 1 and told and given.get("mode") not in UNREAD:
        gaps = [delivery["gap_ms"] for delivery in outcome["deliveries"][1:]]
        assert all(delay <= gap + TOLERANCE_MS for delay, gap in zip(told[0].delays, gaps, strict=False))
    topic = kafka_topic(found.address)
    where = [topic_of(found.entry, story, topic) for story in told]
    assert sorted(filter(None, where)) == sorted(kafka_topic(letter["queue"]) for letter in outcome["dead_letters"])


STORED = [case for case in ALL if case["outcome"].get("stored_expiration_minus_send_time_ms_approx")]


@pytest.mark.parametrize("case", [pytest.param(case, id=case["id"]) for case in STORED])
def test_a_message_lives_as_long_as_there(case: Case) -> None:
    """Its expiration is its own, or what expiry-delay and its bounds make of it."""
    given = case["input"]
    entry = resolved(given).entry
    ttl = given.get("ttl_ms", 0)
    expiration = entry.expiration_ms(SENT + ttl if ttl else 0, SENT)
    life = expiration - SENT if expiration else 0
    assert {life} == set(case["outcome"]["stored_expiration_minus_send_time_ms_approx"])


LETTERS = [
    pytest.param(case, letter, id=case["id"])
    for case in ALL
    for letter in case["outcome"]["dead_letters"][:1]
    if case["id"] not in differences()
]


@pytest.mark.parametrize(("case", "letter"), LETTERS)
def test_a_dead_letter_says_what_it_said(case: Case, letter: Case) -> None:
    """It no longer expires, and an expired one says when it was found."""
    story = stories(resolved(case["input"]), case["input"])[0]
    headers = dict(story.headers)
    if letter["expiration"] == 0:
        assert "JMSExpiration" not in headers
    assert ("_AMQ_ACTUAL_EXPIRY" in headers) == ("_AMQ_ACTUAL_EXPIRY" in letter["properties"])
    assert {"_AMQ_ORIG_ADDRESS", "_AMQ_ORIG_QUEUE", "_AMQ_ORIG_MESSAGE_ID"} <= headers.keys()


def test_all_cases_are_replayed_or_in_the_table() -> None:
    """None is left out in silence, and the table names none that does not exist."""
    known = {case["id"] for case in ALL}
    named = {case for case in differences() if case.startswith("adlq-")}
    assert len(known) == len(ALL)
    assert named <= known
    assert len(named) < len(ALL) / 3
