"""`redelivery dlq summary --every` goes on while Kafka is away, and a signal ends it."""

import signal
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from kafka_redelivery.cli.commands.dlq_summary import _follow
from kafka_redelivery.transport.errors import TransportError

if TYPE_CHECKING:
    from kafka_redelivery.dead_letters.index.index import Index
    from kafka_redelivery.dead_letters.index.summary import Summary


class _Away:
    """An index that Kafka does not answer once."""

    def __init__(self) -> None:
        self.looks = 0
        self.lacking = ""

    def refresh(
        self, check: Callable[..., None], *, settled: bool, waiting: Callable[..., None], skip_leaderless: bool
    ) -> None:
        """Look at Kafka."""
        assert skip_leaderless
        assert not settled, "a job that runs must not hold up the view"
        self.looks += 1
        if self.looks == 1:
            raise TransportError("Kafka does not answer")
        check(1, 1)
        waiting()


def test_an_outage_is_waited_out() -> None:
    """What was known stays, with the reason; then the view is current again."""
    index, shown = _Away(), list[tuple[int, str]]()

    def show(found: "Summary", problem: str) -> None:
        shown.append((cast("int", found), problem))
        if len(shown) == 3:
            signal.raise_signal(signal.SIGINT)

    _follow(cast("Index", index), 0.01, lambda: cast("Summary", index.looks), show)
    assert shown == [(0, ""), (0, "Kafka does not answer"), (2, "")]


def test_a_signal_ends_it_while_it_reads() -> None:
    """It does not read a million new letters to their end before."""
    index, shown = _Away(), list[str]()

    def refresh(check: Callable[..., None], **_options: object) -> None:
        signal.raise_signal(signal.SIGINT)
        check(1, 1_000_000)
        raise AssertionError("it goes on reading")

    index.refresh = refresh  # type: ignore[method-assign]
    _follow(cast("Index", index), 0.01, lambda: cast("Summary", 0), lambda _, problem: shown.append(problem))
    assert shown == [""]
