"""All expressions of dashboard panels, alerts and recording rules."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import promql_parser
import yaml

ROOT = Path(__file__).parents[2]
DASHBOARDS = sorted((ROOT / "grafana" / "dashboards").glob("*.json"))
RULES = sorted((ROOT / "deploy" / "prometheus" / "rules").glob("*.yml"))

_COMPARISONS = {">", "<", ">=", "<=", "==", "!="}
_LEGEND = re.compile(r"{{\s*(\w+)\s*}}")
_VARIABLE = re.compile(r"\$\{?(\w+)\}?")

ANY = {"__rate_interval": "10s", "__range": "5m", "__interval": "1s", "topic": ".*", "tier": ".*", "reason": ".*"}
"""Values for Grafana's variables, except the group."""


@dataclass(frozen=True, slots=True)
class Expression:
    """An expression with its variables replaced."""

    where: str
    text: str
    labels: frozenset[str] = frozenset()
    """The labels that each series of the result must have."""

    instant: bool = False


@dataclass(frozen=True, slots=True)
class Panel:
    """A panel of a dashboard."""

    dashboard: str
    definition: Mapping[str, Any]
    expressions: tuple[Expression, ...]


ON_SPARK = "stream"
"""The dashboard for groups on Spark."""


def panels(group: str, on_spark: str | None = None) -> list[Panel]:
    """Return all panels with queries, for a consumer group and for another one on Spark."""
    found = []
    for path in DASHBOARDS:
        values = ANY | {"group": group if on_spark is None or path.stem != ON_SPARK else on_spark}
        for definition in json.loads(path.read_text())["panels"]:
            targets = definition.get("targets", [])
            expressions = tuple(
                Expression(
                    f"{path.stem}: {definition['title']}: {target['refId']}",
                    _filled(target["expr"], values),
                    frozenset(_LEGEND.findall(target.get("legendFormat", ""))),
                    instant=bool(target.get("instant")),
                )
                for target in targets
            )
            if expressions:
                found.append(Panel(path.stem, definition, expressions))
    return found


def _filled(text: str, values: Mapping[str, str]) -> str:
    return _VARIABLE.sub(lambda match: values[match[1]], text)


def rules(kind: str) -> list[tuple[str, str]]:
    """Return name and expression of all ``alert`` or ``record`` rules."""
    documents = [yaml.safe_load(path.read_text()) for path in RULES]
    found = [rule for each in documents for group in each["groups"] for rule in group["rules"]]
    return [(rule[kind], rule["expr"]) for rule in found if kind in rule]


def alerts() -> list[Expression]:
    """Return the alert expressions without their comparison, so that each has a result when no alert fires."""
    return [
        Expression(f"{name}: {number}", side.prettify(), grouped(side))
        for name, text in rules("alert")
        for number, side in enumerate(_compared(promql_parser.parse(text)))
    ]


def records() -> list[Expression]:
    """Return queries of the recorded series by name, which have results only if the rules run."""
    return [Expression(name, name, grouped(promql_parser.parse(text))) for name, text in rules("record")]


def _compared(expression: promql_parser.Expr) -> list[promql_parser.Expr]:
    match expression:
        case promql_parser.BinaryExpr() if str(expression.op) == "and":
            return _compared(expression.lhs) + _compared(expression.rhs)
        case promql_parser.BinaryExpr() if str(expression.op) == "unless":  # what it leaves out may be empty
            return _compared(expression.lhs)
        case promql_parser.BinaryExpr() if str(expression.op) in _COMPARISONS:
            return [expression.lhs]
        case _:
            raise AssertionError(f"neither a comparison nor several: {expression}")


def grouped(expression: promql_parser.Expr) -> frozenset[str]:
    """Return the labels by which the outermost aggregations group."""
    match expression:
        case promql_parser.AggregateExpr():
            return frozenset(() if expression.modifier is None else expression.modifier.labels)
        case promql_parser.BinaryExpr():
            return grouped(expression.lhs) | grouped(expression.rhs)
        case promql_parser.ParenExpr():
            return grouped(expression.expr)
        case promql_parser.Call():
            return frozenset().union(*(grouped(argument) for argument in expression.args)) - {"le"}
        case _:
            return frozenset()


def used(text: str) -> tuple[set[str], set[str]]:
    """Return the names of metrics and of labels in an expression."""
    metrics: set[str] = set()
    labels: set[str] = set()

    def note(part: promql_parser.Expr) -> None:
        match part:
            case promql_parser.VectorSelector():
                metrics.add(str(part.name))
                labels.update(matcher.name for matcher in part.matchers.matchers)
            case promql_parser.MatrixSelector():
                note(part.vector_selector)
            case promql_parser.AggregateExpr() if part.modifier is not None:
                labels.update(part.modifier.labels)
            case _:
                pass

    promql_parser.walk(promql_parser.parse(text), note)
    return metrics, labels
