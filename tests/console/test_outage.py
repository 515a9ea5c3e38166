"""Kafka is killed behind the console and comes back: pages still answer, say since when, and recover by themselves."""

from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from kafka_redelivery.transport.broker.embedded import EmbeddedKafka
from tests.console.browsing import visiting
from tests.console.serving import serving
from tests.scenarios.cluster import Cluster
from tests.scenarios.redriving import dead_letter
from tests.scenarios.running import Group
from tests.scenarios.scraping import free_port

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.long, pytest.mark.timeout(900)]

LETTERS = 5


def test_pages_answer_while_kafka_is_away(browser: Browser, tmp_path: Path) -> None:
    """The page that is open says so and stops saying so, without being loaded again."""
    # The console knows one port alone, so no connection of another test may get it while Kafka is away.
    client, controller = free_port(), f"127.0.0.1:{free_port()}"
    properties = {
        "controller.quorum.voters": f"1@{controller}",
        "listeners": f"CLIENT://127.0.0.1:{client},CONTROLLER://{controller}",
    }
    with EmbeddedKafka(data_dir=tmp_path / "kafka", port=client, properties=properties) as kafka:
        group = Group(Cluster(kafka.bootstrap_servers), "outage-of-the-console", tmp_path)
        group.prepare()
        dead_letter(group, range(LETTERS))
        try:
            with serving(group) as console, visiting(browser, console.address) as visit:
                page = visit.open("/failures")
                expect(page.locator("#list")).to_contain_text(f"{LETTERS} dead letters")
                page.evaluate("window.opened = 1")
                banner = page.locator("#banner")
                expect(banner).to_be_empty()

                kafka.kill()
                expect(banner).to_contain_text("Not current since")
                expect(page.locator("#list")).to_contain_text(f"{LETTERS} dead letters")
                other = visit.page()
                for path in ("/", "/failures", "/letters", "/jobs", "/waiting", "/topology", "/audit"):
                    answer = other.goto(console.address + path)
                    assert answer is not None
                    assert answer.ok, path
                    expect(other.locator("#banner")).to_contain_text("Not current since")
                other.goto(f"{console.address}/letters")
                expect(other.locator("#list tbody tr")).to_have_count(LETTERS)
                other.close()

                kafka.start()
                expect(banner).to_be_empty()
                dead_letter(group, range(LETTERS, 2 * LETTERS))
                expect(page.locator("#list")).to_contain_text(f"{2 * LETTERS} dead letters")
                assert page.evaluate("window.opened") == 1, "the page was loaded again"
        finally:
            group.close()
