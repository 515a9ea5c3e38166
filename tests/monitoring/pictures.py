"""Draws the pictures of the documentation: ``python -m tests.monitoring.pictures [FOLDER]``.

A group named ``billing`` runs on an embedded Kafka, a real Prometheus scrapes it, and each dashboard's grid is drawn
with the results of its queries.
"""

import json
import sys
import tempfile
from pathlib import Path

from kafka_redelivery.transport.broker.embedded import EmbeddedKafka
from tests.monitoring import life
from tests.monitoring.drawing import Answers, draw
from tests.monitoring.expressions import DASHBOARDS, ROOT, Panel, panels
from tests.monitoring.expressions import ON_SPARK as ON_SPARK_DASHBOARD
from tests.monitoring.prometheus import Prometheus, running
from tests.scenarios.cluster import Cluster
from tests.scenarios.running import Group

NAME = "billing"
ON_SPARK = "ledger"
_NOTE = "drawn from the dashboard's JSON and a real Prometheus; Grafana's own rendering looks different"


def main(folder: Path) -> None:
    """Run the groups, query Prometheus, and draw."""
    with EmbeddedKafka() as kafka, tempfile.TemporaryDirectory() as temporary:
        cluster = Cluster(kafka.bootstrap_servers)
        for name in (NAME, ON_SPARK, "prometheus"):
            (Path(temporary) / name).mkdir()
        group, on_spark = (Group(cluster, name, Path(temporary) / name) for name in (NAME, ON_SPARK))
        ports = life.Ports()
        try:
            with running(Path(temporary) / "prometheus", ports.all()) as prometheus:
                life.prepare(group)
                start_s = prometheus.now()
                life.begin_stream(on_spark, ports)
                everybody_s = life.live(group, ports, prometheus)
                life.go_on_stream(on_spark, ports, prometheus)
                for path in DASHBOARDS:
                    end_s = prometheus.now() if path.stem == ON_SPARK_DASHBOARD else everybody_s
                    _picture(path, folder, prometheus, start_s, end_s)
        finally:
            on_spark.close()
            group.close()


def _picture(path: Path, folder: Path, prometheus: Prometheus, start_s: float, end_s: float) -> None:
    document = json.loads(path.read_text())
    answers = {
        panel.definition["id"]: _answers(panel, prometheus, start_s, end_s)
        for panel in panels(NAME, ON_SPARK)
        if panel.dashboard == path.stem
    }
    figure = draw(document["title"], document["panels"], answers, start_s, _NOTE)
    folder.mkdir(parents=True, exist_ok=True)
    figure.savefig(folder / f"dashboard-{path.stem.replace('_', '-')}.png", dpi=90)


def _answers(panel: Panel, prometheus: Prometheus, start_s: float, end_s: float) -> Answers:
    legends = [target.get("legendFormat", "") for target in panel.definition["targets"]]
    found = [prometheus.answer(each, start_s, end_s, end_s) for each in panel.expressions]
    return list(zip(legends, found, strict=True))


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "images")
