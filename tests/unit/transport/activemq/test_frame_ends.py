"""Which messages of a STOMP connection go on behind the end of their frame."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_redelivery.transport.activemq.queue_reader import FrameEnds

TOKEN = "0123abc"  # noqa: S105 - no secret
CONNECTED = b"CONNECTED\nserver:ActiveMQ/5.18.6\n\n\0\n"
RECEIPT = b"RECEIPT\nreceipt-id:0123abc.7\n\n\0\n"


def message(ack: str, body: bytes, *, length: int | None = None, subscription: str = f"{TOKEN}.messages") -> bytes:
    """Return a frame as Classic writes it: that of a text has no length."""
    declared = "" if length is None else f"content-length:{length}\n"
    return f"MESSAGE\nack:ID\\c{ack}\n{declared}subscription:{subscription}\n\n".encode() + body + b"\0\n"


def cut(*frames: bytes, step: int = 10_000) -> tuple[set[str], str]:
    """Return which messages are cut, and the one that nothing follows, of frames that arrive in pieces."""
    ends, data = FrameEnds(TOKEN), b"".join(frames)
    for at in range(0, len(data), step):
        ends.feed(data[at : at + step])
    return {each.removeprefix("ID:") for each in ends.cut}, ends.open.removeprefix("ID:")


@pytest.mark.parametrize(
    "body",
    [b"one\0", b"one\0two", b"one\0\n\ntwo", b"one\0\n", b"\0", b"one\0two\0\nthree\0", b"one\0\nMESSAGE\n\ntwo"],
)
@pytest.mark.parametrize("step", [1, 7, 10_000])
def test_a_text_that_is_cut(body: bytes, step: int) -> None:
    """It is named when a frame has followed it; its neighbours are whole."""
    found = cut(CONNECTED, message("1", b"one"), message("2", body), message("3", b"one"), b"\n\n", RECEIPT, step=step)
    assert found == ({"2"}, "")


def test_a_text_that_contains_frames_of_another_connection() -> None:
    """These frames do not have the token, so the text is cut."""
    inner = b"one\0\n" + message("9", b"two", subscription="0") + b"RECEIPT\nreceipt-id:1\n\n\0\n"
    assert cut(message("1", inner), RECEIPT)[0] == {"1"}


def test_a_wrong_length() -> None:
    """A message whose declared length is not where its frame ends is not whole."""
    assert cut(message("1", b"one", length=2), RECEIPT)[0] == {"1"}
    assert cut(message("1", b"", length=5), message("2", b"one"), RECEIPT)[0] == {"1"}


@given(
    bodies=st.lists(st.tuples(st.binary(max_size=20), st.booleans()), max_size=8),
    step=st.integers(min_value=1, max_value=60),
)
def test_any_bodies_in_any_pieces(bodies: list[tuple[bytes, bool]], step: int) -> None:
    """A body with its length is whole, whatever it has in it; one without is cut where it has a zero byte."""
    frames = [message(str(at), body, length=len(body) if sized else None) for at, (body, sized) in enumerate(bodies)]
    found, last = cut(CONNECTED, *frames, step=step)
    before_last = {str(at) for at, (body, sized) in enumerate(bodies[:-1]) if b"\0" in body and not sized}
    assert found - {last} == before_last
    assert last == (str(len(bodies) - 1) if bodies else "")
    after, last = cut(CONNECTED, *frames, RECEIPT, step=step)
    assert after == {str(at) for at, (body, sized) in enumerate(bodies) if b"\0" in body and not sized}
    assert last == ""
