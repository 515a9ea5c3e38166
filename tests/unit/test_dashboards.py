"""Dashboards and rules use only metrics and labels of the catalogue."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from grafana.__main__ import outdated
from kafka_redelivery.topology.metric_catalogue import CATALOGUE, COMMON, MetricKind
from tests.monitoring.expressions import DASHBOARDS, ROOT, panels, rules, used

OTHERS = {
    "up": {"job", "instance"},
    "ALERTS": {"alertname", "alertstate", "severity"},
}
"""Metrics of Prometheus itself."""


def known() -> dict[str, set[str]]:
    """Return the labels of every series of this project in Prometheus."""
    found = {name: {*labels} for name, labels in OTHERS.items()}
    for metric in CATALOGUE:
        labels = {*COMMON, *metric.labels, "job", "instance"}
        match metric.kind:
            case MetricKind.COUNTER:
                found[f"{metric.name}_total"] = labels
            case MetricKind.GAUGE:
                found[metric.name] = labels
            case MetricKind.HISTOGRAM:
                found |= {f"{metric.name}_{end}": labels for end in ("count", "sum")}
                found[f"{metric.name}_bucket"] = labels | {"le"}
    return found


def asked() -> Iterator[tuple[str, str, frozenset[str]]]:
    """Return location, text and legend labels of each expression."""
    for panel in panels("billing"):
        for each in panel.expressions:
            yield each.where, each.text, each.labels
    for kind in ("alert", "record"):
        for name, text in rules(kind):
            yield name, text, frozenset()


@pytest.mark.parametrize(("text", "legend"), [each[1:] for each in asked()], ids=[each[0] for each in asked()])
def test_its_metrics_and_labels_exist(text: str, legend: frozenset[str]) -> None:
    """A selector or grouping by a label that no metric has would silently match everything or group nothing."""
    metrics, labels = used(text)
    assert metrics
    assert metrics <= known().keys()
    assert labels | legend <= set().union(*(known()[metric] for metric in metrics))


def test_a_dashboard_is_what_its_code_makes() -> None:
    """The JSON equals the code's output."""
    assert outdated() == [], "run ./dev dashboards"


def test_every_metric_of_the_catalogue_is_seen_somewhere() -> None:
    """A panel or a rule uses every metric of the catalogue."""
    seen = set().union(*(used(text)[0] for _, text, _ in asked()))
    plain = {re.sub(r"_(total|bucket|count|sum)$", "", name) for name in seen}
    unused = {metric.name for metric in CATALOGUE} - plain
    assert not unused, (
        "show each in a panel (grafana, then ./dev dashboards) or use it in a rule (deploy/prometheus/rules)"
    )


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_every_panel_says_what_to_do(path: Path) -> None:
    """Panels have a description, a unit for numbers, and links to existing pages only."""
    alerts = {name for name, _ in rules("alert")}
    document = json.loads(path.read_text())
    shown = [panel for panel in document["panels"] if panel["type"] != "row"]
    numbers = [panel["id"] for panel in document["panels"]]
    assert len(set(numbers)) == len(numbers)
    for panel in shown:
        assert len(panel["description"]) > 20, panel["title"]
        assert panel["type"] == "table" or panel["fieldConfig"]["defaults"]["unit"]
        for link in panel.get("links", []):
            if link["url"].startswith("${console}/"):
                assert re.fullmatch(
                    r"/(failures|letters|jobs|waiting)(\?[\w=&]+)?", link["url"].removeprefix("${console}")
                )
                continue
            assert re.fullmatch(r"\$\{runbooks\}/(\w+)\.md", link["url"])
            assert link["url"].removeprefix("${runbooks}/").removesuffix(".md") in alerts


def test_variables_of_queries_are_variables_of_their_dashboard() -> None:
    """Grafana would send an unknown variable to Prometheus unchanged."""
    for path in DASHBOARDS:
        document = json.loads(path.read_text())
        names = {variable["name"] for variable in document["templating"]["list"]}
        for panel in document["panels"]:
            for target in panel.get("targets", []):
                wanted = set(re.findall(r"\$(\w+)", target["expr"])) - {"__rate_interval", "__range"}
                assert wanted <= names, panel["title"]


def test_provisioning_files_are_yaml_of_the_version_that_grafana_reads() -> None:
    """One file has a data source, one a dashboard provider."""
    found = {path.parent.name: yaml.safe_load(path.read_text()) for path in ROOT.glob("grafana/provisioning/*/*.yaml")}
    assert {name: document["apiVersion"] for name, document in found.items()} == {"dashboards": 1, "datasources": 1}
    assert found["datasources"]["datasources"][0]["type"] == "prometheus"
    assert found["dashboards"]["providers"][0]["type"] == "file"
