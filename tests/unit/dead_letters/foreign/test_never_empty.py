"""No sequence of jobs on a recorded letter writes a record without key and value, unless the original had neither."""

from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from kafka_redelivery.consumers.errors import RedriveError
from kafka_redelivery.dead_letters.copies import ForeignCopies
from kafka_redelivery.dead_letters.foreign.systems import NAMES, Recognition
from kafka_redelivery.dead_letters.pointers import Source, pointer_of
from kafka_redelivery.dead_letters.reading import letter_in
from kafka_redelivery.dead_letters.source import OtherSystem
from kafka_redelivery.topology.redrive.job import JobOptions
from kafka_redelivery.topology.wire.headers import RedriveMark
from tests.foreign.recorded import recorded
from tests.scenarios.cluster import Seen
from tests.unit.consumers.records import Fetched

_LETTERS = [
    each
    for recording in ("share", "smallrye", "cloud_stream", "streams44", "connect44", "camel", "spring", "connect")
    for each in recorded(recording)
]
_TOPICS = {
    letter_in(Fetched(each.topic, 0, 0, None, None, list(each.headers)), OtherSystem("dead", {})).origin
    for each in _LETTERS
}
_COUNTS = dict.fromkeys((*_TOPICS, "a", "b", "aside", "dead.redelivery.parked"), 3)
_SAID = st.builds(Recognition, st.just(()) | st.just((("topic", "trace-id"),)), st.sampled_from(("", *NAMES)))
_OPTIONS = st.builds(
    JobOptions,
    group=st.just("dead"),
    to=st.none() | st.just("aside"),
    max_redrives=st.integers(1, 3),
    restore_headers=st.booleans(),
)
_BYTES = st.none() | st.binary(max_size=4)


class Step(NamedTuple):
    """One job over the letter, and what then becomes of the record that it sends."""

    said: Recognition
    options: JobOptions
    there: bool
    """Whether the record that the letter names is there."""

    keeps_content: bool
    """Whether the next letter has key and value of the record that was sent."""


_STEPS = st.lists(st.builds(Step, _SAID, _OPTIONS, st.booleans(), st.booleans()), min_size=1, max_size=4)


@given(letter=st.sampled_from(_LETTERS), key=_BYTES, value=_BYTES, steps=_STEPS)
def test_no_empty_record_is_written(letter: Seen, key: bytes | None, value: bytes | None, steps: list[Step]) -> None:
    """What a job has sent dies again, with the headers of its first death; only --allow-empty sends what is empty."""
    failure = list(letter.headers)
    content = (key, value) if letter.key is None and letter.value is None else (letter.key, letter.value)
    found = Fetched(letter.topic, letter.partition, letter.offset, letter.key, letter.value, list(failure))
    for number, step in enumerate(steps):
        settings = OtherSystem("dead", {}, step.said)
        original = Fetched("orders", 0, number, *content, list(found.pairs or ()))
        named = pointer_of(letter_in(found, settings))
        source = None if named is None else Source(original if step.there else None, "it is not there")
        try:
            mark = RedriveMark("job", 0, number, number + 1)
            made, _ = ForeignCopies(settings, step.options, _COUNTS).record(found, found.pairs or [], mark, 0, source)
        except RedriveError:
            continue
        assert (made.key, made.value) != (None, None) or content == (None, None)
        content = made.key, made.value
        headers = [*(made.headers or []), *failure]
        found = Fetched(letter.topic, letter.partition, number + 1, None, None, headers)
        if step.keeps_content:
            found.key_bytes, found.value_bytes = content
