"""Events that were sent while a page was on its way."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from kafka_redelivery.cli.console.live import Broadcast


def test_a_page_makes_up_for_what_it_has_missed() -> None:
    """Only events after the page was made are named, also by an address that is damaged."""
    broadcast = Broadcast()
    broadcast.publish("letters", "changed")
    seen = broadcast.seen
    assert broadcast.missed(seen) == {}
    broadcast.publish("letters", "changed")
    broadcast.publish("jobs", "changed")
    assert broadcast.missed(seen) == {"letters": "changed", "jobs": "changed"}
    assert broadcast.missed(broadcast.seen) == {}
    broadcast.publish("banner", "what is shown")
    assert broadcast.missed("") == {"letters": "changed", "jobs": "changed"}


@pytest.mark.parametrize("seen", ["", ",", "letters", "letters.x", "letters.0,letters.9", "." * 100])
def test_a_damaged_address_has_seen_nothing(seen: str) -> None:
    """So the page asks for everything again."""
    broadcast = Broadcast()
    assert broadcast.missed(seen) == {}
    broadcast.publish("letters", "changed")
    assert broadcast.missed(seen) == {"letters": "changed"}


def test_a_page_gets_what_is_sent_while_its_stream_opens() -> None:
    """The first event takes a while to make, and things change meanwhile."""
    broadcast = Broadcast()

    async def first() -> dict[str, str]:
        broadcast.publish("letters", "changed")
        broadcast.publish("banner", "the newest")
        await asyncio.sleep(0)
        return {"banner": "an older one"}

    async def events() -> AsyncIterator[str]:
        async for text in broadcast.stream("", first).body_iterator:
            yield str(text)

    async def read() -> set[str]:
        broadcast.attach()
        found = set()
        async with asyncio.timeout(30):
            async for text in events():
                found.add(text)
                if "event: letters\ndata: changed\n\n" in found:
                    break
        return found

    found = asyncio.run(read())
    assert "event: banner\ndata: the newest\n\n" in found
    assert "event: banner\ndata: an older one\n\n" not in found
