"""An audit and a report whose user lacks a right on a topic refuse to count, instead of printing wrong figures."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from kafka_redelivery.consumers.clock import wall_clock_ms
from kafka_redelivery.pipeline.archive.archive import archive_session
from kafka_redelivery.pipeline.audit.audit import AuditOptions, audit
from kafka_redelivery.pipeline.report.report import Request, make_report
from kafka_redelivery.transport.admin.errors import NotAuthorisedError
from tests.scenarios.authenticated import AuthenticatedKafka
from tests.scenarios.each_right import right_of
from tests.scenarios.running import Group
from tests.scenarios.users import Users

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

_POLICY = {"redeliveryPolicy": {"maximumRedeliveries": 1, "initialRedeliveryDelay": 200, "redeliveryDelay": 200}}
_DEAD = 3


@pytest.fixture
def users(secured: AuthenticatedKafka, unique: str, tmp_path: Path) -> Iterator[Users]:
    """A group that has handled its records, half of which are dead letters."""
    users = Users(secured, Group(secured.cluster, unique, tmp_path))
    users.configure(policyEntry=_POLICY, journal=True)
    users.apply()
    users.grant("worker", "scheduler")
    users.start("worker")
    users.start("scheduler")
    try:
        users.group.send([["ok"], ["reject"]] * _DEAD)
        users.group.settle()
        users.group.stop()
        yield users
    finally:
        users.group.close()


@pytest.mark.parametrize("role", ["audit", "report"])
def test_no_figures_without_a_right(users: Users, spark: SparkSession, role: str) -> None:
    """With the rights of the role all dead letters are counted. Without one of them the error names it."""
    users.grant(role)
    assert _dead_letters(users, spark, role) == _DEAD
    denied = next(acl for acl in users.acls(role) if (acl.name, acl.operation) == (users.group.dead_letters, "Read"))
    users.secured.revoke(denied)
    with pytest.raises(NotAuthorisedError) as refused:
        _dead_letters(users, spark, role)
    assert f"  {right_of(denied)}" in str(refused.value).splitlines()


def _dead_letters(users: Users, spark: SparkSession, role: str) -> int:
    """Return how many dead letters a command counts."""
    settings = users.settings(role)
    if role == "audit":
        counted = audit(spark, settings, AuditOptions())
        assert counted.conserved
        return counted.count("dead_lettered")
    return make_report(archive_session(spark), Request(settings=settings), wall_clock_ms()).letters
