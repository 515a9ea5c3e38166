"""The report of a run of the demo has the figures that follow from its CSV files."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from pyspark.sql import SparkSession

from examples.flights import data
from examples.flights.layout import layout
from examples.flights.scenario import scenario
from examples.flights.truth import Ending, expected
from examples.flights.wire import CONFIG, FLIGHTS
from kafka_redelivery.pipeline.archive.archive import archive_session
from kafka_redelivery.pipeline.report.report import Report, Request, make_report
from kafka_redelivery.topology.config.loading import load_settings
from kafka_redelivery.transport.broker.embedded import EmbeddedKafka
from tests.scenarios.demo_runs import DemoRun

_DAYS: Final = 1
_NOW_MS: Final = 1_767_225_600_000

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.long,
    pytest.mark.slow,
]


@pytest.fixture(scope="module")
def truth() -> Counter[Ending]:
    """Expected outcomes of the records, from the CSV files."""
    given = scenario(data.flights(_DAYS), data.planes())
    return Counter(expected(record, given).ending for record in given.records)


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A broker with the topics of a finished run."""
    with DemoRun(tmp_path_factory.mktemp("flights"), "--days", str(_DAYS)) as run:
        assert run.end() == 0, run.stdout
    with EmbeddedKafka(data_dir=run.keep / "kafka") as broker:
        yield broker.bootstrap_servers


@pytest.mark.parametrize("journal", [True, False])
def test_the_figures_are_those_of_the_csv_files(
    spark: SparkSession, servers: str, truth: Counter[Ending], *, journal: bool
) -> None:
    """Dead letters by reason and attempt and recovered records have the expected numbers, with or without journal."""
    report = _report(spark, servers, journal=journal)

    dead = {ending.value: number for ending, number in truth.items() if ending.dead}
    assert {row["reason"]: row["letters"] for row in report.by_reason} == dead
    assert {(row["origin"], row["letters"]) for row in report.by_origin} == {(FLIGHTS, sum(dead.values()))}
    # Undecodable records reach no handler, rejected ones reach it once, ones with an unknown plane at each attempt.
    deliveries = {row["reason"]: row["deliveries"] for row in report.by_attempt}
    made = {"undecodable": 0, "rejected": 1, "redeliveries_exceeded": layout().redeliveries + 1}
    assert deliveries == {reason: made[reason] for reason in dead}
    assert report.acked == (truth[Ending.ACKED] if journal else None)
    assert (report.recovered, report.waiting) == (truth[Ending.RECOVERED], 0)
    assert report.failed == truth[Ending.RECOVERED] + sum(dead.values())
    assert sum(row["dead"] for row in report.survival) == sum(dead.values())
    assert report.survival[-1]["dead"] == truth[Ending.REDELIVERIES_EXCEEDED]
    assert 0 < report.curve[0] <= report.curve[-1] < 60  # the delays are 1, 2, 4 and 8 s, from before the write
    unknown = next(row for row in report.fingerprints if row["exception"] == "UnknownPlaneError")
    assert (unknown["letters"], unknown["normal_message"]) == (truth[Ending.REDELIVERIES_EXCEEDED], "no plane <id>")


def _report(spark: SparkSession, servers: str, *, journal: bool) -> Report:
    text = Path(CONFIG).read_text(encoding="utf-8")
    settings = load_settings(text, name=str(CONFIG), environment={"FLIGHTS_BROKER": servers})
    return make_report(archive_session(spark), Request(settings=settings, journal=journal), _NOW_MS)
