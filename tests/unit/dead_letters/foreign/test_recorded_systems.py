"""What is read from every recorded dead letter of the systems of 2026, and what is left of it when it is sent again."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from kafka_redelivery.dead_letters.foreign.letter import foreign_letter, sent_again, system_of
from kafka_redelivery.dead_letters.foreign.systems import ANY, SYSTEMS, Recognition
from kafka_redelivery.dead_letters.letter import Letter
from kafka_redelivery.topology.wire.headers import Headers
from tests.foreign.recorded import recorded
from tests.scenarios.cluster import Seen

_USERS = {"trace-id", "content-type", "Content-Type", "empty", "nothing", "bin"}
_NAMES = {
    "share": "share-group",
    "smallrye": "smallrye",
    "cloud_stream": "spring-cloud-stream",
    "streams44": "streams",
    "connect44": "connect",
    "camel": "",
}


def letter(record: Seen, recognition: Recognition = ANY) -> Letter:
    """Return a recorded dead letter as it is read."""
    place = record.topic, record.partition, record.offset
    has_value = record.value is not None
    return foreign_letter(place, record.timestamp_ms, record.key, record.headers, recognition, has_value=has_value)


def letters(recording: str) -> dict[str, Letter]:
    """Return the dead letters of a recording by their ids; share groups have recorded some of their sources, too."""
    found = [letter(each) for each in recorded(recording) if not each.topic.startswith("s-")]
    return {each.id: each for each in found}


@pytest.mark.parametrize("recording", _NAMES)
def test_every_letter_is_recognised(recording: str) -> None:
    """None is another system's. Camel writes nothing of its own, nor does Connect if its context headers are off."""
    known = {each.system for each in letters(recording).values() if each.topic != "kc-dlq-bare"}
    assert known == {_NAMES[recording]}


@pytest.mark.parametrize("recording", [each for each in _NAMES if each != "camel"])
def test_only_the_users_headers_are_left(recording: str) -> None:
    """In their order, those that are given twice included."""
    for each in recorded(recording):
        kept = sent_again(each.headers, system_of(each.headers), "")
        assert kept == [pair for pair in each.headers if pair[0] in _USERS | {"redrive"}] or each.topic == "s-twice"


@pytest.mark.parametrize(
    ("recording", "id_", "expected"),
    [
        ("share", "dlq.s-reject-0@1", ("s-reject-0@1", "g-reject", "1", "rejected", "", "Offset rejected by client.")),
        (
            "share",
            "dlq.s-release-1@0",
            (
                "s-release-1@0",
                "g-release",
                "3",
                "redeliveries_exceeded",
                "",
                "Offset delivery count exceeded the threshold.",
            ),
        ),
        (
            "smallrye",
            "dead-letter-topic-dlqdef-0@0",
            ("q-orders-1@0", "", "", "failed", "java.lang.RuntimeException", "cannot charge"),
        ),
        (
            "smallrye",
            "q-dlq2-1@2",  # died twice: the first set is that of the second death
            (
                "q-orders2-0@3",
                "",
                "",
                "failed",
                "java.lang.IllegalArgumentException",
                "no stock for ünïcode nocause ☃",
            ),
        ),
        (
            "smallrye",
            "q-dlq-ints-2@1",
            (
                "q-ints-0@0",
                "",
                "",
                "undecodable",
                "org.apache.kafka.common.errors.RecordDeserializationException",
                "Size of data received by IntegerDeserializer is not 4",
            ),
        ),
        (
            "smallrye",
            "q-dlq-again-1@0",  # three deliveries: the last set is that of the source
            ("q-again-1@0", "", "3", "failed", "java.lang.RuntimeException", "cannot charge"),
        ),
        (
            "cloud_stream",
            "error.c-orders.c-billing-0@1",
            ("c-orders-0@1", "", "", "failed", "java.lang.IllegalArgumentException", "no stock for ünïcode nocause ☃"),
        ),
        (
            "cloud_stream",
            "c-dead-0@1",
            ("c-orders2-2@1", "", "", "failed", "java.lang.NullPointerException", ""),
        ),
        (
            "streams44",
            "st-dlq-ints-2@0",
            (
                "st-ints-1@0",
                "",
                "",
                "undecodable",
                "org.apache.kafka.common.errors.SerializationException",
                "Size of data received by IntegerDeserializer is not 4",
            ),
        ),
        (
            "streams44",
            "st-dlq-serialization-1@0",  # the same class, but a value that cannot be written
            (
                "st-orders-0@0",
                "",
                "",
                "failed",
                "org.apache.kafka.common.errors.SerializationException",
                'cannot write {"id":1,"why":"nocause"}',
            ),
        ),
        (
            "streams44",
            "st-dlq-punctuate-2@0",  # of no record
            ("", "", "", "failed", "java.lang.IllegalStateException", "punctuated"),
        ),
        (
            "connect44",
            "kc-dlq-put-0@0",
            (
                "kc-orders-1@0",
                "connect-put",
                "",
                "task_put",
                "org.apache.kafka.connect.errors.ConnectException",
                "cannot write",
            ),
        ),
        ("camel", "cm-dlq-0@0", ("", "", "", "", "", "")),
    ],
)
def test_what_a_letter_says(recording: str, id_: str, expected: tuple[str, ...]) -> None:
    """Source record, group, deliveries, reason, exception and message."""
    found = letters(recording)[id_]
    said = found.source_id, found.group, found.deliveries, found.reason, found.exception, found.message
    assert said == expected


def test_shown_headers_are_those_of_the_last_death() -> None:
    """SmallRye writes before the headers of the record, so of a name that is given twice its own is the first."""
    assert letters("smallrye")["q-dlq2-1@2"].headers["dead-letter-offset"] == b"3"


def test_letters_without_content() -> None:
    """Of share groups by default, and of Streams' asynchronous errors and punctuators; a tombstone has a key."""
    assert all(each.no_content == (each.key is None) for each in letters("share").values() if "reject-" in each.id)
    assert not letters("share")["dlq.s-rejectcopy-2@1"].no_content
    empty = {id_ for id_, each in letters("streams44").items() if each.no_content}
    assert {"st-dlq-production-0@0", "st-dlq-punctuate-2@0"} <= empty
    assert not any(id_.startswith(("st-dlq-ints", "st-dlq-orders")) for id_ in empty)


def test_a_hash_of_the_process_is_no_part_of_the_fingerprint() -> None:
    """Spring Cloud Stream names its handler's bean with one, also where the stack trace was left out."""
    whole = recorded("cloud_stream")[0]
    fingerprints = {letter(whole).fingerprint}
    for hash_ in (b"4b268e82", b"0badcafe"):
        headers = [
            (name, (value or b"").replace(b"4b268e82", hash_))
            for name, value in whole.headers
            if name not in {"x-exception-stacktrace", "x-exception-fqcn"}
        ]
        headers.append(("x-exception-fqcn", b"java.lang.IllegalArgumentException"))
        fingerprints.add(letter(replace(whole, headers=tuple(headers))).fingerprint)
    assert len(fingerprints) == 1


_OLD_SPRING = (("kafka_dlt-original-topic", b"unrelated"), ("kafka_dlt-original-consumer-group", b"old"))
_OLD_SMALLRYE = (("dead-letter-exception-class-name", b"E"), ("dead-letter-topic", b"unrelated"))


def recognised(headers: Headers, system: str = "") -> tuple[str, str]:
    """Return which system a letter is of, and where it came from."""
    found = foreign_letter(("dead", 0, 0), 0, None, headers, Recognition(system=system))
    return found.system or "", found.origin


def _first(recording: str) -> Headers:
    return recorded(recording)[0].headers


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        # SmallRye writes before, Spring behind the record's headers: either could have been the last.
        (lambda: (*_first("smallrye"), *_OLD_SPRING), "spring, smallrye"),
        # SmallRye would have written before these, so it was Spring Cloud Stream.
        (lambda: (("user", b""), *_OLD_SMALLRYE, *_first("cloud_stream")), "spring-cloud-stream"),
        # Both append.
        (lambda: (*_OLD_SPRING, *_first("cloud_stream")), "spring-cloud-stream"),
        (lambda: (*_first("cloud_stream"), *_OLD_SPRING), "spring"),
        # A share group copies no headers.
        (lambda: (*_first("share"), *_first("cloud_stream")), "spring-cloud-stream"),
    ],
)
def test_which_system_wrote_it(headers: Callable[[], Headers], expected: str) -> None:
    """The set counts that the failing system wrote; where two could be that, a person says which."""
    given = headers()
    system, origin = recognised(given)
    assert set(system.split(", ")) == set(expected.split(", "))
    if ", " not in expected:
        return
    assert origin == ""
    assert recognised(given, "smallrye") == ("smallrye", "q-orders")
    assert recognised(given, "spring") == ("spring", "unrelated")
    assert recognised(given, "connect") == (system, "")


def test_every_system_has_a_name_of_its_own() -> None:
    """Karafka has two, before 2.5 and after."""
    names = [system.name for system in SYSTEMS if system.name != "karafka"]
    assert len(names) == len(set(names))
