"""While a page is open, the console looks at Kafka with the clients that it has, and still sees everything at once."""

from contextlib import closing

import pytest

from kafka_redelivery.cli.console.job_book import JobBook
from kafka_redelivery.cli.console.letters import Letters
from kafka_redelivery.cli.console.options import ConsoleOptions
from kafka_redelivery.consumers.operations import pausing
from kafka_redelivery.consumers.operations.flow import FlowWatch
from kafka_redelivery.topology.wire.pauses import PauseScope, PauseTarget
from kafka_redelivery.transport import opening
from tests.scenarios.redriving import dead_letter, settings_of
from tests.scenarios.running import Group

pytestmark = pytest.mark.kafka


class Opened:
    """Counts clients that are opened."""

    def __init__(self) -> None:
        self.number = 0

    def taken(self) -> int:
        """Return how many were opened since the last call."""
        taken, self.number = self.number, 0
        return taken


@pytest.fixture(name="clients")
def _clients(monkeypatch: pytest.MonkeyPatch) -> Opened:
    clients, really = Opened(), opening._open

    def counted(*arguments: object) -> object:
        clients.number += 1
        return really(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(opening, "_open", counted)
    return clients


def test_looks_open_no_clients(group: Group, clients: Opened) -> None:
    """Of flow, index and jobs; after a rest the next look opens them again."""
    group.prepare()
    dead_letter(group, range(3))
    settings = settings_of(group)
    letters, book = Letters(settings, ConsoleOptions(index=group.folder / "index")), JobBook(settings)
    watch = FlowWatch(settings)
    with closing(watch):
        first = letters.refresh(), watch.look(), book.look()
        assert clients.taken() > 5
        for _ in range(3):
            again = letters.refresh(), watch.look(), book.look()
            assert clients.taken() == 0
        assert again[0] == first[0]

        target = PauseTarget(PauseScope.SOURCE, group.source)
        pausing.pause(settings, [target], None, 0)
        assert group.source in watch.look().paused
        pausing.resume(settings, [target], 0)
        assert not watch.look().paused

        assert letters.ask("count", lambda index: index.summary().letters) == 3
        dead_letter(group, range(3, 5))
        assert letters.refresh().state != first[0].state
        assert letters.ask("count", lambda index: index.summary().letters) == 5

        clients.taken()
        letters.rest()
        watch.close()
        assert letters.refresh().ends
        assert watch.look().status.group == group.name
        assert clients.taken() > 3
        assert letters.ask("count", lambda index: index.summary().letters) == 5
