"""The list of metrics is an interface: Prometheus takes every name, and nobody has to guess a unit."""

import re
from itertools import pairwise

from kafka_redelivery.topology import metric_catalogue
from kafka_redelivery.topology.metric_catalogue import CATALOGUE, COMMON, Metric, MetricKind
from tests.every import every

EACH = every([(metric,) for metric in CATALOGUE], lambda metric: metric.name)
UNITS = ("_records", "_seconds", "_bytes", "_ratio")
RESERVED = ("_total", "_created", "_count", "_sum", "_bucket")
"""Endings that the exposition adds itself; a name that has one collides with a sample of another."""


def test_names_are_unique() -> None:
    """Samples too: a histogram's are its name with an ending."""
    names = [metric.name for metric in CATALOGUE]
    assert len(set(names)) == len(names)


def test_everything_that_is_defined_is_in_it() -> None:
    """A metric that is forgotten in the catalogue would never be exposed."""
    defined = [value for value in vars(metric_catalogue).values() if isinstance(value, Metric)]
    assert sorted(metric.name for metric in defined) == sorted(metric.name for metric in CATALOGUE)


@EACH
def test_its_name_is_ours_and_legal(metric: Metric) -> None:
    """One prefix for all, so that a dashboard finds them."""
    assert re.fullmatch(r"redelivery(_[a-z]+)+", metric.name)
    assert not metric.name.endswith(RESERVED)


@EACH
def test_its_labels_are_legal(metric: Metric) -> None:
    """Not reserved by Prometheus, and none twice."""
    assert all(re.fullmatch(r"[a-z]+(_[a-z]+)*", label) for label in metric.labels)
    assert not {"le", "quantile", "job"} & set(metric.labels)
    assert len(set(metric.labels)) == len(metric.labels)


@EACH
def test_no_label_can_grow_without_bound(metric: Metric) -> None:
    """Never a key, an offset, a partition or a record."""
    bounded = {"topic", "dead_letter_topic", "tier", "outcome", "ack_type", "attempt", "reason", "where", "event"}
    bounded |= {"refused_by", "cause", "dependency"}  # a topic, a HaltCause, and a name in the configuration
    identity = {"version", "instance"}
    assert set(metric.labels) <= bounded | identity


@EACH
def test_it_does_not_repeat_what_all_have(metric: Metric) -> None:
    """Group and role are on every sample."""
    assert not {*COMMON} & {*metric.labels}


@EACH
def test_its_help_is_one_line(metric: Metric) -> None:
    """A sentence to read in the expression browser."""
    assert metric.help
    assert "\n" not in metric.help
    assert not metric.help.endswith(".")


@EACH
def test_a_histogram_has_ascending_buckets_in_its_unit(metric: Metric) -> None:
    """And nothing else has any."""
    if metric.kind is MetricKind.HISTOGRAM:
        assert metric.name.endswith(UNITS)
        assert metric.buckets
        assert all(lower < upper for lower, upper in pairwise(metric.buckets))
    else:
        assert metric.buckets == ()


def test_a_gauge_of_time_says_its_unit() -> None:
    """An age is computed from it by the reader: ``time() - ...``."""
    times = [metric.name for metric in CATALOGUE if "timestamp" in metric.name]
    assert times
    assert all(name.endswith("_timestamp_seconds") for name in times)
