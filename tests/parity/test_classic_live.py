"""A message that fails ends here as it ended in the real ActiveMQ Classic (live runs)."""

from typing import Any

import pytest

from tests.parity.differences import differences
from tests.parity.importing import Migrated
from tests.parity.recordings import Case, cases
from tests.parity.simulation import SENT, UNREAD, Story, tell, topic_of
from topology.acknowledgement import Dialect
from topology.classic.destination import parse_destination
from topology.classic.resolution import ClassicResolution, resolve_classic
from topology.classic.settings import ClassicSection
from topology.kafka_names import kafka_topic
from topology.migration.connection_uri import read_connection_uri
from topology.policy import PolicyEntry

FILES = ("classic_redeliveries.json", "classic_dlq_strategies.json")
ALL = [case for name in FILES for case in cases(name, "cases")]

TOLERANCE_MS = 5
"""A recorded gap is a lower bound within a few milliseconds."""

SPRING = "http://www.springframework.org/schema/beans"
CORE = "http://activemq.apache.org/schema/core"


def entry_section(destination: str, policy: Case) -> Case:
    """A policy of a map as it stands in our file."""
    found = parse_destination(destination)
    return {str(found.kind): found.name, **policy}


def section(given: Case) -> dict[str, Any]:
    """The case's configuration, broker and client, as it stands in our file."""
    attributes, children = given.get("broker_attributes", ""), given.get("broker_xml") or ""
    xml = f'<beans xmlns="{SPRING}"><broker xmlns="{CORE}" {attributes}>{children}</broker></beans>'
    found = dict(Migrated(xml).imported.section)
    if "uri_options" in given:
        found |= read_connection_uri(f"tcp://localhost:61616?{given['uri_options']}").section
    if "policy" in given:
        found["redeliveryPolicy"] = given["policy"]
    if "policy_map" in given:
        entries = [entry_section(each["destination"], each["policy"]) for each in given["policy_map"]]
        found["redeliveryPolicyMap"] = {"redeliveryPolicyEntries": entries}
    return found


def resolved(given: Case) -> ClassicResolution:
    """What the configuration says of the case's destination."""
    text = given.get("destination", "queue:Q")
    destination = parse_destination(f"{text}ID:temporary" if text.endswith(":") else text)
    configuration = ClassicSection.model_validate(section(given), by_alias=True, by_name=False).value()
    subscription = given.get("durable_subscription")
    group = "group" if subscription is None else f"{subscription['client_id']}:{subscription['name']}"
    return resolve_classic(configuration, destination, kafka_topic(destination.name), group)


def is_poison(given: Case, number: int) -> bool:
    """Whether a message fails."""
    return "poison" not in given or f"m{number}" in given["poison"]


def stories(entry: PolicyEntry, given: Case) -> list[Story]:
    """What becomes of each message that fails."""
    mode = given.get("mode", "transacted-rollback")
    nobody_looks = mode == "no-consumer" and 'expireMessagesPeriod="0"' in (given.get("broker_xml") or "")
    return [
        tell(
            entry,
            mode,
            Dialect.CLASSIC,
            ttl_ms=0 if nobody_looks else given.get("ttl_ms", 0),
            persistent=given.get("persistent", True),
            stop_after=given.get("stop_after", 12),
        )
        for number in range(given.get("messages", 1))
        if is_poison(given, number)
    ]


def still_there(entry: PolicyEntry, given: Case) -> bool:
    """Whether dead letters have not expired themselves by the time somebody looks."""
    life = entry.dead_letter_strategy.expiration
    return not 0 < life <= given.get("settle_ms", 0)


@pytest.mark.parametrize("case", [pytest.param(case, id=case["id"]) for case in ALL if case["id"] not in differences()])
def test_a_failing_message_ends_as_recorded(case: Case) -> None:
    """As often delivered, after delays at least as long, its dead letter in the same place with the same life."""
    given, outcome = case["input"], case["outcome"]
    found = resolved(given)
    told = stories(found.entry, given)
    good = given.get("messages", 1) - len(told)
    assert sum(story.delivered for story in told) + good == outcome["total_deliveries"]
    assert any(story.stopped for story in told) == outcome["stopped_by_harness"]
    if given.get("messages", 1) == 1 and told and given.get("mode") not in UNREAD:
        gaps = [delivery["gap_ms"] for delivery in outcome["deliveries"][1:]]
        assert all(delay <= gap + TOLERANCE_MS for delay, gap in zip(told[0].delays, gaps, strict=False))
    topic = kafka_topic(found.destination.name)
    where = [topic_of(found.entry, story, topic) for story in told if still_there(found.entry, given)]
    expected = [kafka_topic(letter["destination"].partition(":")[2]) for letter in outcome["dead_letters"]]
    assert sorted(filter(None, where)) == sorted(expected)


LETTERS = [
    pytest.param(case, letter, id=case["id"])
    for case in ALL
    for letter in case["outcome"]["dead_letters"][:1]
    if case["id"] not in differences()
]


@pytest.mark.parametrize(("case", "letter"), LETTERS)
def test_a_dead_letter_says_what_it_said(case: Case, letter: Case) -> None:
    """Its own expiration, the record's original one and mode, the cause, and the user's own properties."""
    given = case["input"]
    found = resolved(given)
    story = stories(found.entry, given)[0]
    headers = dict(story.headers)
    life = found.entry.dead_letter_strategy.expiration
    assert (letter["expiration"] == "set") == ("JMSExpiration" in headers) == (life > 0)
    if life > 0:
        assert story.dead_letter is not None
        assert letter["expiration_minus_now_ms_approx"] <= life
        assert story.dead_letter.expiration_ms >= SENT + life
    original = letter["properties"].get("originalExpiration", {}).get("value", 0)
    if original and life <= 0:
        assert headers["originalExpiration"] == b"%d" % (SENT + given["ttl_ms"])
    mode = letter["properties"].get("originalDeliveryMode", {}).get("value")
    assert headers.get("originalDeliveryMode") == (None if mode is None else mode.encode())
    cause = headers["dlqDeliveryFailureCause"]
    expired = "Message Expired" in letter["properties"]["dlqDeliveryFailureCause"]["value"]
    assert cause is not None
    assert cause.startswith(b'{"reason":"expired"' if expired else b'{"reason":"redeliveries_exceeded"')
    assert headers["colour"] == b"blue"


def test_all_cases_are_replayed_or_in_the_table() -> None:
    """None is left out in silence, and the table names none that does not exist."""
    known = {case["id"] for case in ALL}
    replayed = known - set(differences())
    named = {case for case in differences() if case.startswith(("redeliv-", "dlq-"))}
    assert len(known) == len(ALL)
    assert named <= known
    assert len(replayed) + len(named) == len(ALL)
    assert len(named) < len(ALL) / 10
