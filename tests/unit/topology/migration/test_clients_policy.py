"""The policy of a client in a Spring file, with or without a broker in it."""

import pytest

from kafka_redelivery.topology.migration.result import MigrationError
from tests.parity.importing import Migrated

SPRING = "http://www.springframework.org/schema/beans"
CORE = "http://activemq.apache.org/schema/core"
BROKER = "<amq:broker brokerName='b' useJmx='false'/>"
POLICY, FACTORY = "org.apache.activemq.RedeliveryPolicy", "org.apache.activemq.ActiveMQConnectionFactory"


def spring(content: str) -> Migrated:
    """A Spring file."""
    return Migrated(f'<beans xmlns="{SPRING}" xmlns:amq="{CORE}" xmlns:p="{SPRING[:-5]}p">{content}</beans>')


@pytest.mark.parametrize("broker", [BROKER, ""])
@pytest.mark.parametrize(
    "content",
    [
        (
            '<amq:connectionFactory id="c" brokerURL="tcp://a:1" redeliveryPolicy="#p"/>'
            '<amq:redeliveryPolicy id="p" maximumRedeliveries="4"/>'
        ),
        (
            '<amq:connectionFactory><amq:redeliveryPolicy><amq:redeliveryPolicy maximumRedeliveries="4"/>'
            "</amq:redeliveryPolicy></amq:connectionFactory>"
        ),
        f'<bean class="{POLICY}"><property name="maximumRedeliveries" value="4"/></bean>',
        (
            f'<bean id="p" class="{POLICY}" p:maximumRedeliveries="4"/>'
            f'<bean class="{FACTORY}" p:brokerURL="tcp://a:1" p:redeliveryPolicy-ref="p"/>'
        ),
        (
            f'<bean id="p" class="{POLICY}"><property name="maximumRedeliveries" value="4"/></bean>'
            f'<bean class="{FACTORY}"><property name="redeliveryPolicy" ref="p"/></bean>'
        ),
        (
            f'<bean class="a.Pool"><property name="connectionFactory"><bean class="{FACTORY}">'
            f'<property name="redeliveryPolicy"><bean class="{POLICY}"><property name="maximumRedeliveries"'
            ' value="4"/></bean></property></bean></property></bean>'
        ),
        (
            f'<bean class="{FACTORY}"><constructor-arg '
            'value="tcp://a:1?jms.redeliveryPolicy.maximumRedeliveries=4"/></bean>'
        ),
        '<amq:xaConnectionFactory brokerURL="tcp://a:1?jms.redeliveryPolicy.maximumRedeliveries=4&amp;a=b"/>',
    ],
)
def test_the_policy_of_a_client(content: str, broker: str) -> None:
    """Each way to write it has the same result, and a note says that the client waits."""
    ours = spring(content + broker)
    assert ours.imported.section == {"redeliveryPolicy": {"maximumRedeliveries": 4}}
    assert ours.explain("orders")["policy"]["maximumRedeliveries"] == 4


def test_of_two_clients_all_is_that_of_the_first() -> None:
    """Not its policy with the flag of the other."""
    client = '<amq:connectionFactory brokerURL="tcp://a:1?{}jms.redeliveryPolicy.maximumRedeliveries={}" {}/>'
    ours = spring(
        client.format("", 4, 'nonBlockingRedelivery="true"')
        + client.format("jms.optimizeAcknowledge=true&amp;", 5, 'nonBlockingRedelivery="false"')
    )
    assert ours.imported.section == {"redeliveryPolicy": {"maximumRedeliveries": 4}}
    assert ours.imported.handler == {"nonBlockingRedelivery": True}
    assert ours.imported.top_level == {}
    assert "nonBlockingRedelivery is not set" not in ours.notes


def test_a_uri_in_a_file_is_that_of_the_version() -> None:
    """And that it does not set nonBlockingRedelivery is said once."""
    ours = spring(BROKER + '<amq:connectionFactory brokerURL="tcp://a:1?jms.redeliveryPolicy.maximumRedeliveries=4"/>')
    assert ours.notes.count("nonBlockingRedelivery is not set") == 1


def test_a_clients_policies_by_destination() -> None:
    """They are in a map, which takes precedence; nonBlockingRedelivery is the handler's."""
    ours = spring(
        f'<bean id="a" class="{POLICY}" p:queue="A" p:maximumRedeliveries="1"/>'
        f'<bean id="m" class="{POLICY}Map"><property name="redeliveryPolicyEntries">'
        '<list><ref bean="a"/></list></property></bean>'
        f'<bean class="{FACTORY}" p:redeliveryPolicyMap-ref="m" p:nonBlockingRedelivery="true"/>'
    )
    entries = [{"queue": "A", "maximumRedeliveries": 1}]
    assert ours.imported.section == {"redeliveryPolicyMap": {"redeliveryPolicyEntries": entries}}
    assert ours.imported.handler == {"nonBlockingRedelivery": True}


def test_the_policy_of_a_second_client_has_a_note() -> None:
    """Our configuration has one client; an equal policy needs no note."""
    one, two = '<amq:redeliveryPolicy maximumRedeliveries="4"/>', '<amq:redeliveryPolicy maximumRedeliveries="5"/>'
    factories = [
        f"<amq:connectionFactory><amq:redeliveryPolicy>{each}</amq:redeliveryPolicy></amq:connectionFactory>"
        for each in (one, one, two)
    ]
    ours = spring("".join(factories))
    assert ours.imported.section == {"redeliveryPolicy": {"maximumRedeliveries": 4}}
    assert ours.notes.count("the policy of one client") == 1


def test_a_policy_of_the_broker_is_not_the_clients() -> None:
    """Another bean refers to it."""
    entries = f'<redeliveryPolicyEntries><ref xmlns="{SPRING}" bean="p"/></redeliveryPolicyEntries>'
    plugin = f"<redeliveryPlugin><redeliveryPolicyMap><redeliveryPolicyMap>{entries}</redeliveryPolicyMap>"
    ours = spring(
        f'<amq:redeliveryPolicy id="p" queue="A" maximumRedeliveries="4"/>'
        f'<broker xmlns="{CORE}" schedulerSupport="true">'
        f"<plugins>{plugin}</redeliveryPolicyMap></redeliveryPlugin></plugins></broker>"
    )
    assert list(ours.imported.section) == ["plugins"]


def test_a_uri_that_the_factory_refuses_has_a_note() -> None:
    """The rest of the file is read."""
    ours = spring('<amq:connectionFactory brokerURL="tcp://a:1?jms.useAsyncSend=true&amp;jms.none=1"/>' + BROKER)
    assert "brokerURL is not carried over: the URI has jms options that cannot be set: none" in ours.notes


def test_a_file_without_broker_and_client_is_refused() -> None:
    """A broker cannot be started with it."""
    with pytest.raises(MigrationError, match="contains no <broker"):
        spring('<bean class="a.Other"/>')
