"""What is read from the headers of other systems' dead letters, and which headers stay when they are sent again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_redelivery.dead_letters.foreign.letter import foreign_letter, header_text, sent_again, system_of
from kafka_redelivery.dead_letters.foreign.systems import FIELDS, SYSTEMS, UNKNOWN, Recognition
from kafka_redelivery.dead_letters.letter import Letter
from kafka_redelivery.topology.wire.headers import HeaderList
from tests.foreign.recorded import recorded

USER = ("traceparent", b"00-1")

KARAFKA: HeaderList = [
    USER,
    ("source_topic", b"orders"),
    ("source_partition", b"2"),
    ("source_offset", b"17"),
    ("source_consumer_group", b"billing"),
    ("source_attempts", b"3"),
    ("source_trace_id", b"5fb2"),
]
WOLVERINE: HeaderList = [
    USER,
    ("destination", b"kafka://topic/orders"),
    ("attempts", b"3"),
    ("exception-type", b"System.TimeoutException"),
    ("exception-message", b"the bank is down"),
    ("exception-stack", b"   at Bank.Pay()"),
    ("failed-at", b"1700000000000"),
]


def letter(headers: HeaderList, **mapping: str) -> Letter:
    """Return the letter with these headers."""
    return foreign_letter(("dead", 1, 5), 1_700_000_000_000, b"k", headers, Recognition(tuple(mapping.items())))


def of(system: str, topic: str, number: int) -> Letter:
    """Return a recorded letter of a dead-letter topic."""
    record = [each for each in recorded(system) if each.topic == topic][number]
    return letter(list(record.headers))


@pytest.mark.parametrize(
    ("system", "topic", "expected"),
    [
        (
            "spring",
            "orders-dlt",
            ("billing", "orders-0@0", "", "failed", "java.lang.IllegalStateException", "the bank is down for 7"),
        ),
        (
            "spring",
            "numbers-dlt",
            (
                "counting",
                "numbers-0@0",
                "",
                "undecodable",
                "org.springframework.kafka.support.serializer.DeserializationException",
                "failed to deserialize",
            ),
        ),
        (
            "spring",
            "payments-dlt",
            ("paying", "payments-0@0", "3", "failed", "java.lang.IllegalStateException", "the bank is down for 7"),
        ),
        (
            "connect",
            "orders-dlq",
            (
                "connect-sink",
                "orders-2@0",
                "",
                "transformation",
                "org.apache.kafka.connect.errors.DataException",
                "Value (twelve) was out of range for requested data type",
            ),
        ),
        (
            "streams",
            "totals-dlq",
            ("", "amounts-2@0", "", "failed", "java.lang.IllegalStateException", "an amount below zero: -2"),
        ),
    ],
)
def test_recorded(system: str, topic: str, expected: tuple[str, ...]) -> None:
    """Group, source record, deliveries, reason, exception and message of the first recorded letter."""
    found = of(system, topic, 0)
    read = (found.group, found.source_id, found.deliveries, found.reason, found.exception, found.message)
    assert read == expected
    assert found.origin == expected[1].rpartition("-")[0]


def test_others() -> None:
    """Karafka says how often, Wolverine why; an older Karafka has other names."""
    found = letter(KARAFKA)
    assert (found.group, found.source_id, found.deliveries) == ("billing", "orders-2@17", "3")
    older = [(name.replace("source_", "original_"), value) for name, value in KARAFKA]
    assert letter(older)[:12] == (*found[:5], dict(older), *found[6:12])
    found = letter([USER, ("asyncRetry", b'{"ttl":1795835544330,"top":"orders","att":2}')])
    assert (found.system, found.origin, found.source_id, found.deliveries) == ("kafkajs-async-retry", "orders", "", "3")
    found = letter(WOLVERINE)
    assert (found.origin, found.source_id, found.deliveries) == ("orders", "", "3")
    assert (found.exception, found.message) == ("System.TimeoutException", "the bank is down")


def test_a_wrapper_without_a_cause() -> None:
    """Spring's text stays if there is nothing behind it."""
    found = of("spring", "orders-dlt", 5)
    assert found.exception == "java.lang.IllegalArgumentException"
    assert found.message.startswith("Listener method 'public void ")


@pytest.mark.parametrize("system", ["spring", "connect", "streams"])
def test_only_the_users_headers_are_sent_again(system: str) -> None:
    """And the mark, which replaces an older one."""
    for each in recorded(system):
        headers = list(each.headers)
        kept = sent_again(headers, system_of(headers), "3f9a2c01bd/0@5/2")
        assert [name for name, _ in kept[:-1]] in (["traceparent", "empty", "binary"], ["traceparent"])
        assert kept[-1] == ("redrive", b"3f9a2c01bd/0@5/2")


@pytest.mark.parametrize("headers", [KARAFKA, WOLVERINE])
def test_others_lose_theirs(headers: HeaderList) -> None:
    """Wolverine's ``destination`` is that of every envelope; a ``redrive`` of the user's own stays."""
    own = ("redrive", b"the user's own")
    kept = sent_again([*headers, own], system_of(headers), "")
    assert kept == [USER, *([headers[1]] if headers is WOLVERINE else []), own]


@pytest.mark.parametrize("system", ["spring", "connect", "streams"])
def test_headers_of_another_system(system: str) -> None:
    """A producer of the source has set them, all that there are: the letter still goes where its own system says."""
    forged: HeaderList = [
        ("kafka_dlt-original-topic", b"payments"),
        ("__connect.errors.topic", b"payments"),
        ("__streams.errors.topic", b"payments"),
        *((name, b"payments" if name == "source_topic" else value) for name, value in KARAFKA),
    ]
    for each in recorded(system):
        if each.topic.endswith(("-dlt", "-dlq")):
            own = letter(list(each.headers))
            found = letter([*forged, *each.headers])
            assert found[:5] + found[6:] == own[:5] + own[6:]
            assert system_of([*forged, *each.headers]) is system_of(list(each.headers))


def test_mapped() -> None:
    """Any header may have any field, as a decimal or big-endian number; a known system is then not looked for."""
    names = {field: f"x-{field}" for field in FIELDS}
    said: HeaderList = [
        USER,
        *((f"x-{field}", field.encode()) for field in ("topic", "group", "reason", "exception", "message")),
        ("x-partition", b"\x00\x00\x00\x02"),
        ("x-offset", b"17"),
        ("x-attempts", b"3"),
    ]
    found = letter([*KARAFKA, *said], **names)
    assert (found.source_id, found.deliveries, found.group) == ("topic-2@17", "3", "group")
    assert (found.reason, found.exception, found.message) == ("reason", "exception", "message")
    assert sent_again(said, system_of(said, Recognition(tuple(names.items()))), "") == [USER]


def test_what_no_system_has_written() -> None:
    """The letter is listed with what Kafka says about it, and is not sent without a target."""
    found = letter([USER])
    assert (found.id, found.origin, found.source_id, found.reason, found.fingerprint) == ("dead-1@5", "", "", "", "")
    assert system_of([]) is UNKNOWN


def test_binary_numbers_are_shown() -> None:
    """Those of Spring; what is too long for a number, and other headers, as text."""
    assert header_text("kafka_dlt-original-partition", b"\x00\x00\x00\x02") == "2"
    assert header_text("retry_topic-backoff-timestamp", b"\x01\x8b\xcf\xe5h\x00") == "1700000000000"
    assert header_text("kafka_dlt-original-offset", b"\x00" * 9) == "\x00" * 9
    assert header_text("user", b"\x00\x02") == "\x00\x02"
    assert header_text("user", None) is None
    assert (
        header_text("x-original-timestamp", b"\x00\x00\x01\xa2\x1f\xe7\x2d\xc2", "spring-cloud-stream")
        == "1795831573954"
    )
    assert header_text("x-original-offset", b"12", "karafka") == "12"


_NAMES = sorted(
    {name.rstrip("*") for system in SYSTEMS for name in system.removed}
    | {"redrive"}
    | {f"{prefix}original-{name}" for prefix in ("kafka_dlt-", "kafka_") for name in ("topic", "partition", "offset")}
    | {f"__{system}.errors.{name}" for system in ("connect", "streams") for name in ("topic", "partition", "offset")}
)


@given(st.lists(st.tuples(st.sampled_from(_NAMES), st.none() | st.binary(max_size=24))))
def test_damaged_headers(headers: HeaderList) -> None:
    """Whatever they contain, a letter is read, its source record is one that Kafka can have, and it can be sent."""
    found = letter(headers)
    assert found.id == "dead-1@5"
    if found.source_id:
        partition, _, offset = found.source_id.removeprefix(f"{found.origin}-").partition("@")
        assert 0 <= int(partition) < 2**31
        assert 0 <= int(offset) < 2**63
    sent_again(headers, system_of(headers), "3f9a2c01bd/0@5/2")
    for name, value in headers:
        header_text(name, value)
