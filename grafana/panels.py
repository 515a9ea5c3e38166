"""The kinds of panels of the dashboards."""

from __future__ import annotations

from typing import NamedTuple

from grafana_foundation_sdk.builders import common, dashboard, stat, table, timeseries
from grafana_foundation_sdk.builders.prometheus import Dataquery
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.models.common import (
    BigValueColorMode,
    GraphThresholdsStyleMode,
    LegendDisplayMode,
    LegendPlacement,
    SortOrder,
    StackingMode,
    TooltipDisplayMode,
)
from grafana_foundation_sdk.models.dashboard import (
    DashboardLink,
    DashboardLinkType,
    DataSourceRef,
    Threshold,
    ThresholdsMode,
)
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

DATASOURCE = DataSourceRef(type_val="prometheus", uid="${datasource}")

ROW = 24
"""Columns of Grafana's grid."""

Panel = timeseries.Panel | stat.Panel | table.Panel


class Query(NamedTuple):
    """One expression and the name of its series."""

    expr: str
    legend: str = ""


class Levels(NamedTuple):
    """Value from which a panel is yellow and red; ``None`` = never. With ``reverse``: below which."""

    warning: float | None = None
    critical: float | None = None
    reverse: bool = False

    def config(self) -> dashboard.ThresholdsConfig:
        """Grafana's thresholds: ascending, each colour from its value on."""
        if self.reverse:
            steps = [(None, "red"), (self.critical, "yellow"), (self.warning, "green")]
        else:
            steps = [(None, "green"), (self.warning, "yellow"), (self.critical, "red")]
        known = [Threshold(value, colour) for value, colour in [steps[0], *(s for s in steps[1:] if s[0] is not None)]]
        return dashboard.ThresholdsConfig().mode(ThresholdsMode.ABSOLUTE).steps(known)


NO_LEVELS = Levels()
ANY_IS_BAD = Levels(critical=1)


def graph(  # noqa: PLR0913 - what a panel has
    title: str,
    description: str,
    unit: str,
    *queries: Query,
    levels: Levels = NO_LEVELS,
    stacked: bool = False,
    signed: bool = False,
    runbook: str | None = None,
    view: str | None = None,
    width: int = ROW // 2,
) -> Panel:
    """Curves over time.

    Args:
        title: what the panel shows.
        description: what it means, and what to do about it.
        unit: Grafana's name of the unit.
        queries: the curves.
        levels: drawn as lines.
        stacked: whether the curves add up.
        signed: whether values below zero are shown.
        runbook: the alert whose page is linked.
        view: the view of `redelivery console` that is linked.
        width: of :data:`ROW` columns.
    """
    legend = (
        common.VizLegendOptions()
        .display_mode(LegendDisplayMode.TABLE)
        .placement(LegendPlacement.BOTTOM)
        .show_legend(True)
        .calcs(["lastNotNull", "max"])
    )
    panel = (
        timeseries.Panel()
        .title(title)
        .description(description)
        .datasource(DATASOURCE)
        .unit(unit)
        .span(width)
        .height(8)
        .line_width(1)
        .fill_opacity(40 if stacked else 8)
        .legend(legend)
        .tooltip(common.VizTooltipOptions().mode(TooltipDisplayMode.MULTI).sort(SortOrder.DESCENDING))
        .thresholds(levels.config())
    )
    if not signed:
        panel.min(0)
    if stacked:
        panel.stacking(common.StackingConfig().mode(StackingMode.NORMAL))
    if levels != NO_LEVELS:
        panel.thresholds_style(common.GraphThresholdsStyleConfig().mode(GraphThresholdsStyleMode.DASHED))
    for number, query in enumerate(queries):
        panel.with_target(
            Dataquery().expr(query.expr).legend_format(query.legend).range().ref_id(chr(ord("A") + number))
        )
    return _linked(panel, runbook, view)


def figure(  # noqa: PLR0913 - what a panel has
    title: str,
    description: str,
    unit: str,
    query: Query,
    *,
    levels: Levels = NO_LEVELS,
    runbook: str | None = None,
    view: str | None = None,
    width: int = 4,
    none: str | None = None,
) -> Panel:
    """The last value, large. Arguments as in :func:`graph`; ``none`` is shown if there is no value."""
    panel = (
        stat.Panel()
        .title(title)
        .description(description)
        .datasource(DATASOURCE)
        .unit(unit)
        .span(width)
        .height(5)
        .color_mode(BigValueColorMode.VALUE if levels == NO_LEVELS else BigValueColorMode.BACKGROUND)
        .reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]))
        .thresholds(levels.config())
        .with_target(Dataquery().expr(query.expr).legend_format(query.legend).range().ref_id("A"))
    )
    if none is not None:
        panel.no_value(none)
    return _linked(panel, runbook, view)


def listing(title: str, description: str, query: Query, *, width: int = ROW // 2) -> Panel:
    """The current series as a table, one row each with its labels."""
    target = Dataquery().expr(query.expr).instant().format(PromQueryFormat.TABLE).ref_id("A")
    return (
        table.Panel()
        .title(title)
        .description(description)
        .datasource(DATASOURCE)
        .span(width)
        .height(8)
        .with_target(target)
    )


def _linked(panel: Panel, runbook: str | None, view: str | None = None) -> Panel:
    links: list[Builder[DashboardLink]] = []
    if runbook is not None:
        links.append(_link(f"What to do: {runbook}", f"${{runbooks}}/{runbook}.md"))
    if view is not None:
        links.append(_link("Open in the console", f"${{console}}/{view}"))
    if links:
        panel.links(links)
    return panel


def _link(title: str, url: str) -> dashboard.DashboardLink:
    return dashboard.DashboardLink(title).type(DashboardLinkType.LINK).url(url).target_blank(True)
