"""What all dashboards share: variables, links to one another, time range."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import NamedTuple

from grafana_foundation_sdk.builders import dashboard
from grafana_foundation_sdk.models.dashboard import (
    DashboardCursorSync,
    DashboardLinkType,
    VariableOption,
    VariableRefresh,
    VariableSort,
)

from grafana.panels import DATASOURCE, Panel

TAG = "kafka-redelivery"
_CONSOLE = "http://localhost:8080"


class Section(NamedTuple):
    """A heading and its panels."""

    title: str
    panels: Sequence[Panel]


class Choice(NamedTuple):
    """A dashboard variable with values from Prometheus."""

    name: str
    values: str
    """A ``label_values`` query."""

    label: str
    several: bool = True


GROUP = Choice("group", "label_values(redelivery_build_info, group)", "Consumer group", several=False)
GROUPS = GROUP._replace(several=True)
TOPIC = Choice("topic", 'label_values(redelivery_dead_letters_total{group=~"$group"}, topic)', "Source topic")
TIER = Choice("tier", 'label_values(redelivery_pending{group=~"$group"}, tier)', "Tier")
REASON = Choice("reason", 'label_values(redelivery_dead_letters_total{group=~"$group"}, reason)', "Reason")


def framed(
    uid: str, title: str, description: str, choices: Sequence[Choice], sections: Sequence[Section]
) -> dashboard.Dashboard:
    """Build a dashboard with these variables and sections."""
    board = (
        dashboard.Dashboard(title)
        .uid(uid)
        .description(description)
        .tags([TAG])
        .readonly()
        .tooltip(DashboardCursorSync.CROSSHAIR)
        .refresh("30s")
        .time("now-3h", "now")
        .timezone("browser")
        .with_variable(dashboard.DatasourceVariable("datasource").label("Prometheus").type("prometheus"))
    )
    for choice in choices:
        board.with_variable(_variable(choice))
    board.with_variable(
        dashboard.TextBoxVariable("runbooks")
        .label("Runbooks at")
        .description("Address of the pages of docs/runbooks")
        .default_value("docs/runbooks")
        .current(VariableOption(selected=True, text="docs/runbooks", value="docs/runbooks"))
    )
    board.with_variable(
        dashboard.TextBoxVariable("console")
        .label("Console at")
        .description("Address of `redelivery console` of this group")
        .default_value(_CONSOLE)
        .current(VariableOption(selected=True, text=_CONSOLE, value=_CONSOLE))
    )
    board.link(
        dashboard.DashboardLink("kafka-redelivery")
        .type(DashboardLinkType.DASHBOARDS)
        .tags([TAG])
        .include_vars(True)
        .keep_time(True)
    )
    board.link(
        dashboard.DashboardLink("Console")
        .type(DashboardLinkType.LINK)
        .url("${console}/")
        .tooltip("What moves, what waits, what failed, and sending it again")
        .target_blank(True)
    )
    numbers = count(1)
    for section in sections:
        board.with_row(dashboard.Row(section.title).id(next(numbers)))
        for panel in section.panels:
            board.with_panel(panel.id(next(numbers)))
    return board


def _variable(choice: Choice) -> dashboard.QueryVariable:
    variable = (
        dashboard.QueryVariable(choice.name)
        .label(choice.label)
        .query(choice.values)
        .datasource(DATASOURCE)
        .refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(VariableSort.ALPHABETICAL_ASC)
    )
    if choice.several:
        every = VariableOption(selected=True, text="All", value="$__all")
        variable.multi(True).include_all(True).all_value(".*").current(every)
    return variable
