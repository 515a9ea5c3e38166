"""An error about configurations that may not be read names their topics, and none whose right is granted."""

import pytest

from kafka_redelivery.cli.console.access import LocalUser, Role, User
from kafka_redelivery.cli.console.console import Console
from kafka_redelivery.cli.console.options import ConsoleOptions
from kafka_redelivery.transport.errors import TransportError
from tests.scenarios.users import Users
from tests.scenarios.waiting import until

pytestmark = pytest.mark.kafka


def test_one_topic_of_many(users: Users) -> None:
    """As the console's page of the topology shows it."""
    users.configure(journal=True)
    users.apply()
    users.grant("console")
    settings, group = users.settings("console"), users.group
    console = Console(settings, group.folder, ConsoleOptions(), LocalUser(User("ann", Role.ADMIN)))
    assert len(console._look_at_topology().plan.topics) > 3
    allowed = next(a for a in users.acls("console") if (a.name, a.operation) == (group.source, "DescribeConfigs"))
    users.secured.grant([allowed._replace(permission="deny")])

    def said() -> str:
        try:
            console._look_at_topology()
        except TransportError as error:
            return str(error)
        return ""

    problem = until(said, "the right is missing")
    assert f"grant the right DescribeConfigs on topic {group.source} (" in problem
    assert group.dead_letters not in problem
    assert problem.endswith(
        f"--add --allow-principal User:{users.name('console')} --operation DescribeConfigs --topic {group.source} "
        "--resource-pattern-type literal"
    )
    assert group.ready not in problem
