"""A message that fails has the same outcome as in the real ActiveMQ Classic (live runs)."""

from typing import Any

from kafka_redelivery.topology.classic.destination import parse_destination
from kafka_redelivery.topology.config.classic_section import ClassicSection
from kafka_redelivery.topology.migration.connection_uri import read_connection_uri
from kafka_redelivery.topology.policy.entry import PolicyEntry
from kafka_redelivery.topology.resolution.classic import ClassicResolution, resolve_classic
from kafka_redelivery.topology.topics.naming import kafka_topic
from tests.every import every
from tests.parity.differences import DIFFERENCES
from tests.parity.effects import Dialect
from tests.parity.importing import Migrated
from tests.parity.recordings import Case, cases
from tests.parity.simulation import MODES_WITHOUT_CONSUMER, SENT, MessageOutcome, simulate, topic_of

FILES = ("classic_redeliveries.json", "classic_dlq_strategies.json")
ALL = [case for name in FILES for case in cases(name, "cases")]

TOLERANCE_MS = 5
"""A recorded gap may be this many milliseconds shorter than the delay."""

SPRING = "http://www.springframework.org/schema/beans"
CORE = "http://activemq.apache.org/schema/core"


def entry_section(destination: str, policy: Case) -> Case:
    """Return a policy of a map as a section of our configuration."""
    found = parse_destination(destination)
    return {str(found.kind): found.name, **policy}


def section(given: Case) -> dict[str, Any]:
    """Return the case's configuration of broker and client as a section of our configuration."""
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
    """Resolve the configuration for the case's destination."""
    text = given.get("destination", "queue:Q")
    destination = parse_destination(f"{text}ID:temporary" if text.endswith(":") else text)
    configuration = ClassicSection.model_validate(section(given), by_alias=True, by_name=False).value()
    subscription = given.get("durable_subscription")
    group = "group" if subscription is None else f"{subscription['client_id']}:{subscription['name']}"
    return resolve_classic(configuration, destination, kafka_topic(destination.name), group)


def is_poison(given: Case, number: int) -> bool:
    """Return whether a message fails."""
    return "poison" not in given or f"m{number}" in given["poison"]


def simulated(entry: PolicyEntry, given: Case) -> list[MessageOutcome]:
    """Simulate each message that fails."""
    mode = given.get("mode", "transacted-rollback")
    never_expired = mode == "no-consumer" and 'expireMessagesPeriod="0"' in (given.get("broker_xml") or "")
    return [
        simulate(
            entry,
            mode,
            Dialect.CLASSIC,
            ttl_ms=0 if never_expired else given.get("ttl_ms", 0),
            persistent=given.get("persistent", True),
            stop_after=given.get("stop_after", 12),
        )
        for number in range(given.get("messages", 1))
        if is_poison(given, number)
    ]


def still_there(entry: PolicyEntry, given: Case) -> bool:
    """Return whether the recording looked at the dead letters before they expired."""
    life = entry.dead_letter_strategy.expiration
    return not 0 < life <= given.get("settle_ms", 0)


@every([(case,) for case in ALL if case["id"] not in DIFFERENCES])
def test_a_failing_message_has_the_recorded_outcome(case: Case) -> None:
    """Deliveries, least delays, and destination and expiration of the dead letters are the recorded ones."""
    given, recorded_outcome = case["input"], case["outcome"]
    found = resolved(given)
    outcomes = simulated(found.entry, given)
    good = given.get("messages", 1) - len(outcomes)
    assert sum(outcome.delivered for outcome in outcomes) + good == recorded_outcome["total_deliveries"]
    assert any(outcome.stopped for outcome in outcomes) == recorded_outcome["stopped_by_harness"]
    if given.get("messages", 1) == 1 and outcomes and given.get("mode") not in MODES_WITHOUT_CONSUMER:
        gaps = [delivery["gap_ms"] for delivery in recorded_outcome["deliveries"][1:]]
        assert all(delay <= gap + TOLERANCE_MS for delay, gap in zip(outcomes[0].delays, gaps, strict=False))
    topic = kafka_topic(found.destination.name)
    topics = [topic_of(found.entry, outcome, topic) for outcome in outcomes if still_there(found.entry, given)]
    expected = [kafka_topic(letter["destination"].partition(":")[2]) for letter in recorded_outcome["dead_letters"]]
    assert sorted(filter(None, topics)) == sorted(expected)


LETTERS = [
    (case, letter) for case in ALL for letter in case["outcome"]["dead_letters"][:1] if case["id"] not in DIFFERENCES
]


@every(LETTERS, lambda case, _: case["id"])
def test_a_dead_letter_has_the_recorded_headers(case: Case, letter: Case) -> None:
    """Expiration, original expiration and delivery mode, cause and the user's own properties are as recorded."""
    given = case["input"]
    found = resolved(given)
    outcome = simulated(found.entry, given)[0]
    headers = dict(outcome.headers)
    life = found.entry.dead_letter_strategy.expiration
    assert (letter["expiration"] == "set") == ("JMSExpiration" in headers) == (life > 0)
    if life > 0:
        assert outcome.dead_letter is not None
        assert letter["expiration_minus_now_ms_approx"] <= life
        assert outcome.dead_letter.expiration_ms >= SENT + life
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
    """No case is left out silently, and the table names no case that does not exist."""
    known = {case["id"] for case in ALL}
    replayed = known - set(DIFFERENCES)
    named = {case for case in DIFFERENCES if case.startswith(("redeliv-", "dlq-"))}
    assert len(known) == len(ALL)
    assert named <= known
    assert len(replayed) + len(named) == len(ALL)
    assert len(named) < len(ALL) / 10
