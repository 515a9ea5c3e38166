"""A job on Spark whose user lacks a right of its role names it, and no record is lost or doubled."""

import os
import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from kafka_redelivery.cli.command import exit_code
from kafka_redelivery.consumers.clock import wall_clock_ms
from kafka_redelivery.pipeline.archive.archive import Archive, archive_session, missing_text, run_archive
from kafka_redelivery.pipeline.audit.audit import AuditOptions, audit
from kafka_redelivery.pipeline.report.report import Request, make_report
from kafka_redelivery.pipeline.stream.shutdown import Shutdown
from kafka_redelivery.pipeline.stream.stream import run_stream
from tests.pipeline.streaming import HANDLER
from tests.scenarios.authenticated import Acl, AuthenticatedKafka
from tests.scenarios.cluster import Sent
from tests.scenarios.each_right import JOBS, NOT_NOTICED, command_row, example, message_of, right_of
from tests.scenarios.running import Group, exactly
from tests.scenarios.users import Users
from tests.scenarios.waiting import until

_POLICY = {"redeliveryPolicy": {"maximumRedeliveries": 2, "initialRedeliveryDelay": 0, "redeliveryDelay": 200}}
_SCRIPTS = [["ok"], ["raise", "raise", "ok"], ["reject"]]
_ROLES = ("archive", "audit", "report", "spark")
_WITHIN_S = 300.0
_NUMBERS = re.compile(r"(micro-batch |billing\.spark\.)\d+")
"""Whichever task is the first to say it."""


class Jobs:
    """A group whose records a streaming query handles, and whose dead letters are archived and counted."""

    def __init__(self, users: Users, spark: SparkSession, log: pytest.LogCaptureFixture) -> None:
        self.users, self._spark, self._log, self.sent = users, spark, log, 0

    def run(self, role: str) -> tuple[int, str]:
        """Run the job of a role once over new records; return the exit code of its command, and what it says."""
        if role == "spark":
            self.users.group.send(_SCRIPTS, first=self.sent)
            self.sent += len(_SCRIPTS)
        self._log.clear()
        try:
            said = self._run(role)
        except Exception as error:  # noqa: BLE001 - what the command would report
            return exit_code(error), "\n".join([*self._log.messages, str(error)])
        return 0, "\n".join([*self._log.messages, *said])

    def _run(self, role: str) -> list[str]:
        settings, folder = self.users.settings(role), Path(self.users.group.folder)
        if role == "spark":
            shutdown = Shutdown(timedelta(seconds=25))
            run_stream(settings, folder, available_now=True, session=self._spark, shutdown=shutdown)
            return []
        if role == "audit":
            audit(self._spark, settings, AuditOptions())
            return []
        if role == "report":
            make_report(archive_session(self._spark), Request(settings=settings), wall_clock_ms())
            return []
        group = self.users.group  # a new record, so that the topics of the jobs are read
        group.cluster.produce(settings.naming().jobs_topic(), [Sent(b"{}", b"another program")])
        archive = Archive.of(settings, folder, str(folder / "table"))
        done = run_archive(archive_session(self._spark), archive)
        return [*map(missing_text, done.missing), done.states_problem]

    def done(self) -> bool:
        """Handle what waits; return whether all records have their outcome."""
        self._run("spark")
        group, rejected = self.users.group, set(range(2, self.sent, 3))
        return len(group.outputs()) >= self.sent - len(rejected) and len(group.dead()) >= len(rejected)


@pytest.fixture
def jobs(
    secured: AuthenticatedKafka, unique: str, tmp_path: Path, spark: SparkSession, caplog: pytest.LogCaptureFixture
) -> Iterator[Jobs]:
    """A group with its topics, of which the scheduler runs."""
    folder = tmp_path / "group"
    folder.mkdir()
    users = Users(secured, Group(secured.cluster, unique, folder))
    pipeline = {"checkpoint": "checkpoint"}
    users.configure(policyEntry=_POLICY, journal=True, handler={"callable": HANDLER}, pipeline=pipeline)
    users.apply()
    users.grant("scheduler", *_ROLES)
    users.start("scheduler")
    try:
        yield Jobs(users, spark, caplog)
    finally:
        users.group.close()


def _is_needed_later(acl: Acl) -> bool:
    """Whether a right is needed after the first start, too, which commits where the query begins."""
    return (acl.flag, acl.pattern) != ("--transactional-id", "literal")


@pytest.mark.spark
@pytest.mark.long
@pytest.mark.timeout(3600)
def test_each_right_of_each_job(jobs: Jobs) -> None:
    """The documentation has a table of what is seen. With WRITE_RIGHTS_TABLE set, it is written."""
    users, rows = jobs.users, []
    for role in reversed(_ROLES):  # the query writes the dead letters that the others read
        for acl in sorted(users.acls(role), key=_is_needed_later):
            users.secured.revoke(acl)
            code, said = jobs.run(role)
            users.secured.grant([acl])
            right = right_of(acl)
            shown = _NUMBERS.sub(r"\g<1>0", message_of(users.group, right, said))
            print(role, right, code, shown or said[-2000:])  # noqa: T201 - shown if the test fails
            rows.append(command_row(role, example(users.group, str(right)), code, shown))
        code, said = jobs.run(role)
        assert code == 0, said
    until(jobs.done, "all records have their outcome", within_s=_WITHIN_S)
    rejected = set(range(2, jobs.sent, 3))
    assert users.group.outputs() == exactly(set(range(jobs.sent)) - rejected)
    assert users.group.dead() == exactly(rejected)
    rows.sort(key=lambda row: row.split()[1])
    if os.environ.get("WRITE_RIGHTS_TABLE"):
        JOBS.write(rows)
    assert [row for row in rows if NOT_NOTICED in row] == []
    assert JOBS.rows() == rows
