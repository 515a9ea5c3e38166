"""Every panel, alert and recording rule has a result in a real Prometheus that scraped a real run.

With ``--long`` a second group runs on Spark, for what shows a query alone.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from kafka_redelivery.transport.broker.embedded import EmbeddedKafka
from tests.monitoring import life
from tests.monitoring.expressions import ON_SPARK, Expression, alerts, panels, records
from tests.monitoring.prometheus import Prometheus, running
from tests.scenarios.cluster import Cluster
from tests.scenarios.running import Group

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800), pytest.mark.xdist_group("monitoring")]


_OF_A_QUERY = ("redelivery_query_", "redelivery_table_")


@dataclass(frozen=True, slots=True)
class Run:
    """A finished run and the Prometheus that scraped it."""

    group: str
    on_spark: str | None
    prometheus: Prometheus
    start_s: float
    end_s: float
    everybody_s: float

    def complaint(self, expression: Expression) -> str | None:
        """Return the error of a result, if there is one."""
        series = self.prometheus.answer(expression, self.start_s, self.end_s, self.everybody_s)
        if not any(each.points for each in series):
            return f"{expression.where}: no data: {expression.text}"
        lacking = [label for label in expression.labels if any(not each.labels.get(label) for each in series)]
        return f"{expression.where}: no label {lacking}: {expression.text}" if lacking else None

    def complaints(self, expressions: list[Expression]) -> list[str]:
        """Return the errors of several expressions; without Spark those that show a query are left out."""
        asked = [each for each in expressions if self.on_spark or not any(name in each.text for name in _OF_A_QUERY)]
        return [found for each in asked if (found := self.complaint(each)) is not None]


@pytest.fixture(
    scope="module", params=[False, pytest.param(True, marks=pytest.mark.long)], ids=["without Spark", "with Spark"]
)
def run(
    request: pytest.FixtureRequest, kafka: EmbeddedKafka, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Run]:
    """Run a group, or both, once for all tests of this file."""
    folder = tmp_path_factory.mktemp("monitoring")
    cluster, name = Cluster(kafka.bootstrap_servers), f"m{folder.stat().st_ino}"
    group, on_spark = Group(cluster, name, folder), Group(cluster, f"{name}s", tmp_path_factory.mktemp("spark"))
    ports = life.Ports(on_spark=request.param)
    (folder / "prometheus").mkdir()
    try:
        with running(folder / "prometheus", ports.all()) as prometheus:
            life.prepare(group)
            start_s = prometheus.now()
            if request.param:
                life.begin_stream(on_spark, ports)
            everybody_s = life.live(group, ports, prometheus)
            if request.param:
                life.go_on_stream(on_spark, ports, prometheus)
            of_query = on_spark.name if request.param else None
            yield Run(group.name, of_query, prometheus, start_s, prometheus.now(), everybody_s)
    finally:
        on_spark.close()
        group.close()


def test_every_panel_shows_something(run: Run) -> None:
    """With the dashboard's variables replaced; each series has the labels of its legend."""
    shown = [each for each in panels(run.group, run.on_spark) if run.on_spark or each.dashboard != ON_SPARK]
    asked = [each for panel in shown for each in panel.expressions]
    assert len(asked) > 50
    assert run.complaints(asked) == []


def test_every_alert_compares_something(run: Run) -> None:
    """Without its comparison each alert has a result, so one that does not fire is not broken."""
    asked = alerts()
    assert len(asked) > 15
    assert run.complaints(asked) == []


def test_every_recording_rule_records_something(run: Run) -> None:
    """Each recorded series exists with its labels."""
    assert run.complaints(records()) == []


def test_alerts_fire_when_it_happens(run: Run) -> None:
    """The provoked alerts fire; those on early redeliveries, clocks, fencing and restarts do not."""
    fired = run.prometheus.fired()
    assert fired >= life.PROVOKED
    assert not {"RedeliveryEarly", "RedeliveryClockFaults", "RedeliveryFenced", "RedeliveryRestarting"} & fired


@pytest.mark.parametrize(
    "text",
    [
        'sum(redelivery_deliverys_total{{group="{group}"}})',
        'sum(redelivery_deliveries_total{{groop="{group}"}})',
        'rate(redelivery_deliveries{{group="{group}"}}[10s])',
    ],
    ids=["metric", "label", "ending"],
)
def test_a_wrong_name_is_noticed(run: Run, text: str) -> None:
    """The check itself: a query for a metric that does not exist has no result."""
    assert run.complaint(Expression("wrong", text.format(group=run.group))) is not None


def test_a_wrong_label_of_a_legend_is_noticed(run: Run) -> None:
    """The series exist but do not have the label."""
    text = f'sum by (tropic) (redelivery_deliveries_total{{group="{run.group}"}})'
    assert run.complaint(Expression("wrong", text, frozenset({"tropic"}))) is not None
