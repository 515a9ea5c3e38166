"""The forms in which Spring accepts the properties of a bean."""

import pytest

from kafka_redelivery.topology.migration.result import MigrationError
from tests.parity.importing import Migrated

SPRING = "http://www.springframework.org/schema"
CORE = "http://activemq.apache.org/schema/core"
FACTORY, POLICY = "org.apache.activemq.ActiveMQConnectionFactory", "org.apache.activemq.RedeliveryPolicy"
URI = "tcp://a:1?jms.redeliveryPolicy.maximumRedeliveries=4"
CONFIGURER = "org.springframework.beans.factory.config.PropertyPlaceholderConfigurer"


def spring(content: str, **properties: str) -> Migrated:
    """A Spring file."""
    prefixes = " ".join(f'xmlns:{each}="{SPRING}/{each}"' for each in ("p", "c", "util", "context"))
    text = f'<beans xmlns="{SPRING}/beans" xmlns:amq="{CORE}" {prefixes}>{content}</beans>'
    return Migrated(text, properties=properties)


def factory(content: str) -> str:
    """A connection factory as a bean."""
    return f'<bean class="{FACTORY}">{content}</bean>'


def policy(attributes: str, content: str = "") -> str:
    """A policy as a bean."""
    return f'<bean class="{POLICY}" {attributes}>{content}</bean>'


def own(content: str) -> str:
    """A factory with the policy ``p``."""
    return factory('<property name="redeliveryPolicy" ref="p"/>') + content


ENTRY = policy("p:queue='a' p:maximumRedeliveries='4'")
FOUR = '<property name="maximumRedeliveries" value="4"/>'


@pytest.mark.parametrize(
    "content",
    [
        own(policy('id="p"', '<property name="maximumRedeliveries"><value> 4 </value></property>')),
        own(policy('id="p"', '<property name="maximumRedeliveries"><value type="int">4</value></property>')),
        own(policy('name="a, p"', FOUR)),
        own(f'<bean id="b" abstract="true" class="{POLICY}">{FOUR}</bean><bean id="p" parent="b"/>'),
        own(
            f'<bean id="b" class="{POLICY}"><property name="maximumRedeliveries" value="9"/></bean>'
            f'<bean id="p" parent="b">{FOUR}</bean>'
        ),
        factory('<property name="redeliveryPolicy"><ref local="p"/></property>') + policy('id="p"', FOUR),
        factory('<property name="redeliveryPolicy.maximumRedeliveries" value="4"/>'),
        factory(
            '<property name="properties"><props><prop key="redeliveryPolicy.maximumRedeliveries">4</prop></props>'
            "</property>"
        ),
        f'<bean class="{FACTORY}" p:redeliveryPolicy.maximumRedeliveries="4"/>',
        factory(f"<constructor-arg><value>{URI}</value></constructor-arg>"),
        factory(f"<property name='brokerURL'><value>{URI}</value></property>"),
        f'<bean class="{FACTORY}" c:brokerURL="{URI}"/>',
        f'<bean class="{FACTORY}" c:_0="{URI}"/>',
        f'<bean class="{FACTORY}" c:_0="admin" c:_2="{URI}" c:_1="secret"/>',
        factory(f"<constructor-arg value='admin'/><constructor-arg value='secret'/><constructor-arg value='{URI}'/>"),
        factory(
            f"<constructor-arg index='2' value='{URI}'/><constructor-arg index='0' value='admin'/>"
            "<constructor-arg index='1' value='secret'/>"
        ),
        factory(f"<constructor-arg name='brokerURL' value='{URI}'/><constructor-arg name='userName' value='admin'/>"),
        f'<bean class="org.apache.activemq.pool.PooledConnectionFactory"><constructor-arg value="{URI}"/></bean>',
        f'<bean class="org.apache.camel.component.activemq.ActiveMQComponent" p:brokerURL="{URI}"/>',
        f'<bean class="org.apache.activemq.ra.ActiveMQResourceAdapter" p:serverUrl="{URI}"/>',
    ],
)
def test_each_form_of_a_property(content: str) -> None:
    """All have the same result."""
    assert spring(content).imported.section == {"redeliveryPolicy": {"maximumRedeliveries": 4}}


@pytest.mark.parametrize(
    "content",
    [
        '<property name="redeliveryPolicyEntries" ref="l"/>',
        f'<property name="redeliveryPolicyEntries">{ENTRY}</property>',
        '<property name="redeliveryPolicyEntries"><array><ref bean="e"/></array></property>',
        '<property name="redeliveryPolicyEntries" ref="e"/>',
    ],
)
def test_each_form_of_a_list(content: str) -> None:
    """A list of its own, an array, and one bean in the place of a list."""
    ours = spring(
        f'<bean class="{POLICY}Map" id="m">{content}</bean>'
        + factory('<property name="redeliveryPolicyMap" ref="m"/>')
        + policy("id='e' p:queue='a' p:maximumRedeliveries='4'")
        + f"<util:list id='l'>{ENTRY}</util:list>"
    )
    entries = [{"queue": "a", "maximumRedeliveries": 4}]
    assert ours.imported.section["redeliveryPolicyMap"] == {"redeliveryPolicyEntries": entries}


def test_texts_of_beans_are_springs() -> None:
    """Placeholders are replaced before the conversion, and no schema refuses them; null is no value."""
    ours = spring(
        f'<bean class="{CONFIGURER}"/>'
        + own(
            policy(
                'id="p"',
                '<property name="useExponentialBackOff" value="${flag}"/>'
                '<property name="backOffMultiplier" value="1.5f"/><property name="queue"><null/></property>',
            )
        ),
        flag="yes",
    )
    assert ours.imported.section["redeliveryPolicy"] == {"useExponentialBackOff": True, "backOffMultiplier": 1.5}
    assert "validate=false" not in ours.notes


@pytest.mark.parametrize("name", ["maximumRedeliveries", "redeliveryDelay"])
def test_an_expression_of_spring_is_named(name: str) -> None:
    """Only Spring can compute it; the error says what to write."""
    with pytest.raises(MigrationError, match="Spring computes: write its value") as caught:
        spring(own(policy(f"id='p' p:{name}='#{{1 + 2}}'")))
    assert "broker refuses" not in str(caught.value)


def test_acknowledgement_that_a_factory_sets() -> None:
    """As in its URI."""
    ours = spring(
        factory(
            '<property name="optimizeAcknowledge" value="true"/>'
            '<property name="prefetchPolicy.queuePrefetch" value="5"/>'
        )
    )
    assert ours.imported.top_level == {"mode": "auto", "acknowledgement": {"optimizeAcknowledge": True, "prefetch": 5}}
    assert "optimizeAcknowledge=true becomes mode: auto" in ours.notes


BROKER = f"""<bean class="org.apache.activemq.broker.BrokerService" init-method="start">
<property name="schedulerSupport" value="true"/><property name="useJmx" value="#{{env.jmx}}"/>
<property name="destinations"><list><bean class="org.apache.activemq.command.ActiveMQQueue" c:name="orders"/></list>
</property><property name="destinationPolicy">
<bean class="org.apache.activemq.broker.region.policy.PolicyMap"><property name="policyEntries"><list>
<bean class="org.apache.activemq.broker.region.policy.PolicyEntry"><property name="queue" value="&gt;"/>
<property name="deadLetterStrategy"><bean class="org.apache.activemq.broker.region.policy.IndividualDeadLetterStrategy">
<property name="queuePrefix"><value>D.</value></property></bean></property></bean></list></property></bean></property>
<property name="plugins"><list><bean class="org.apache.activemq.broker.util.RedeliveryPlugin">
<property name="redeliveryPolicyMap"><bean class="{POLICY}Map"><property name="defaultEntry">{policy("", FOUR)}
</property></bean></property></bean></list></property></bean>"""


def test_a_broker_as_a_bean() -> None:
    """As programs embed it."""
    imported = spring(BROKER).imported
    assert imported.destinations == ["queue:orders"]
    assert imported.section == {
        "policyEntries": [
            {"queue": ">", "deadLetterStrategy": {"individualDeadLetterStrategy": {"queuePrefix": "D."}}}
        ],
        "plugins": [
            {"redeliveryPlugin": {"redeliveryPolicyMap": {"defaultEntry": {"maximumRedeliveries": 4}}}},
        ],
    }


P_FOUR = policy("id='p'", FOUR)
PROFILES = (
    own("")
    + f'<beans profile="dev">{P_FOUR}</beans>'.replace("4", "1")
    + f'<beans profile="prod, test"><beans>{P_FOUR}</beans></beans>'
)


@pytest.mark.parametrize("active", ["prod", "a, test"])
def test_beans_of_an_active_profile(active: str) -> None:
    """The others have a note that says how to choose them."""
    ours = spring(PROFILES, **{"spring.profiles.active": active})
    assert ours.imported.section == {"redeliveryPolicy": {"maximumRedeliveries": 4}}
    assert "<beans profile='dev'> is not read: choose it with --property spring.profiles.active=dev" in ours.notes
    assert "has no effect" not in ours.notes


def test_beans_without_an_active_profile() -> None:
    """As Spring does without spring.profiles.active; the error names the option."""
    with pytest.raises(MigrationError, match=r"profile='dev'> is not read.* spring.profiles.active=dev"):
        spring(f'<beans profile="dev">{own(P_FOUR)}</beans>')
    negated = f'<beans profile="!dev">{own(P_FOUR)}</beans>'
    assert spring(negated).imported.section == {"redeliveryPolicy": {"maximumRedeliveries": 4}}


def test_inner_beans_may_have_the_same_id() -> None:
    """Spring checks those beside each other."""
    inner = factory(f'<property name="redeliveryPolicy">{P_FOUR}</property>')
    assert spring(inner + inner).imported.section == {"redeliveryPolicy": {"maximumRedeliveries": 4}}
    with pytest.raises(MigrationError, match="two beans have the id 'p'"):
        spring(P_FOUR * 2)


@pytest.mark.parametrize(
    "content",
    [
        (
            '<util:properties id="q"><prop key="n">4</prop></util:properties>'
            '<context:property-placeholder properties-ref="q"/>'
        ),
        (
            '<util:properties id="q"><prop key="n">4</prop></util:properties>'
            f'<bean class="{CONFIGURER}"><property name="properties" ref="q"/></bean>'
        ),
    ],
)
def test_properties_that_are_a_bean(content: str) -> None:
    """A reference leads to them."""
    ours = spring(content + own(policy("id='p' p:maximumRedeliveries='${n}'")))
    assert ours.imported.section == {"redeliveryPolicy": {"maximumRedeliveries": 4}}
    assert "other files" not in ours.notes


def test_blueprint() -> None:
    """Karaf's form of the same beans."""
    space = "http://www.osgi.org/xmlns/blueprint/v1.0.0"
    ours = Migrated(
        f'<blueprint xmlns="{space}" xmlns:cm="http://aries.apache.org/blueprint/xmlns/blueprint-cm/v1.1.0">'
        '<cm:property-placeholder persistent-id="a"><cm:default-properties><cm:property name="n" value="4"/>'
        "</cm:default-properties></cm:property-placeholder>"
        f'<bean class="{FACTORY}"><argument value="tcp://a:1"/><property name="redeliveryPolicy">'
        f'<ref component-id="p"/></property></bean><bean id="p" class="{POLICY}">'
        '<property name="maximumRedeliveries" value="${n}"/></bean></blueprint>'
    )
    assert ours.imported.section == {"redeliveryPolicy": {"maximumRedeliveries": 4}}


def test_placeholders_of_a_client_are_asked_for_at_once() -> None:
    """Also if nothing in the file replaces them, and only those that are carried over."""
    beans = own(policy("id='p' p:maximumRedeliveries='${n}' p:redeliveryDelay='${d:7}'"))
    beans += f'<bean class="{FACTORY}" p:brokerURL="${{url}}" p:password="${{secret}}"/>'
    for before in ("", '<context:property-placeholder location="a.properties"/>'):
        with pytest.raises(MigrationError, match="needs a value for n, url: set it with"):
            spring(before + beans)
        ours = spring(before + beans, n="4", url="tcp://a:1")
        assert ours.imported.section == {"redeliveryPolicy": {"maximumRedeliveries": 4, "redeliveryDelay": 7}}


def test_a_document_type_is_refused_with_the_fix() -> None:
    """Files of Spring 1 have one."""
    with pytest.raises(MigrationError, match="remove <!DOCTYPE>"):
        Migrated('<!DOCTYPE beans SYSTEM "spring-beans.dtd"><beans/>')


@pytest.mark.parametrize(
    "content",
    [
        '<constructor-arg><bean class="java.net.URI"><constructor-arg value="tcp://a:1"/></bean></constructor-arg>',
        '<constructor-arg ref="url"/>',
        '<property name="brokerURL" value="#{env.url}"/>',
    ],
)
def test_a_uri_that_is_computed_has_a_note(content: str) -> None:
    """Its policy is not known."""
    assert "only Spring computes it; import its value, too" in spring(factory(content)).notes
    assert "only Spring computes it" in spring(f'<bean class="{FACTORY}" c:_0-ref="url"/>').notes


def test_a_value_that_is_computed_has_a_note() -> None:
    """Such as a constant of a class."""
    constant = '<util:constant static-field="org.apache.activemq.RedeliveryPolicy.NO_MAXIMUM_REDELIVERIES"/>'
    ours = spring(own(policy("id='p'", f'<property name="maximumRedeliveries">{constant}</property>')))
    assert "maximumRedeliveries is not carried over: only Spring computes <constant>; write its value" in ours.notes


def test_the_client_of_artemis_has_a_note() -> None:
    """It has no policy."""
    ours = spring('<bean class="org.apache.activemq.artemis.jms.client.ActiveMQConnectionFactory"/>')
    assert "Artemis's client has no redelivery policy: import the broker's file" in ours.notes


def test_the_prefetch_of_a_bean() -> None:
    """It is that of the acknowledgement. Classes may have spaces around them."""
    inner = '<bean class=" org.apache.activemq.ActiveMQPrefetchPolicy " p:queuePrefetch="5"/>'
    inner = f'<property name="prefetchPolicy">{inner}</property>'
    ours = spring(f'<bean class="{FACTORY}" p:optimizeAcknowledge="true">{inner}</bean>')
    assert ours.imported.top_level["acknowledgement"] == {"optimizeAcknowledge": True, "prefetch": 5}


def test_a_policy_without_a_factory_that_refers_to_it_has_a_note() -> None:
    """Spring does not use it."""
    ours = spring(factory("") + policy("p:maximumRedeliveries='4'"))
    assert ours.imported.section == {}
    assert "<redeliveryPolicy> is not carried over: nothing refers to it" in ours.notes


def test_placeholders_that_may_stay_need_values_where_they_are_carried_over() -> None:
    """But not in destinations to which no policy refers."""
    before = (
        '<context:property-placeholder ignore-unresolvable="{}" location="a"/><amq:queue physicalName="${{queue}}"/>'
    )
    beans = own(policy("id='p' p:maximumRedeliveries='${n}'"))
    for lenient in ("true", "false"):
        with pytest.raises(MigrationError, match="needs a value for n: set it with --property n=VALUE"):
            spring(before.format(lenient) + beans)


def test_properties_that_a_class_makes_have_a_note() -> None:
    """Only what is carried over needs a value of them."""
    made = f'<bean class="{CONFIGURER}"><property name="properties"><bean class="a.Mine"/></property></bean>'
    core = "<amq:broker brokerName='${name}' useJmx='false'><amq:networkConnectors><amq:networkConnector uri='${uri}'/>"
    ours = spring(made + core + "</amq:networkConnectors></amq:broker>", name="b")
    assert "properties of <bean class='a.Mine'> are not read: set them with --property" in ours.notes


def test_a_broker_of_no_namespace_has_no_other_hint() -> None:
    """It is not inside of other beans."""
    with pytest.raises(MigrationError, match=r"the broker refuses the file$"):
        spring("<broker/>")


def test_the_broker_of_a_profile() -> None:
    """A program embeds it. Without a profile a broker does not read beans inside of beans."""
    broker = (
        "<beans{}><amq:broker><amq:destinations><amq:queue physicalName='a'/></amq:destinations></amq:broker></beans>"
    )
    imported = spring(broker.format(" profile='x'"), **{"spring.profiles.active": "x"}).imported
    assert imported.destinations == ["queue:a"]
    with pytest.raises(MigrationError, match="does not read <beans> inside of <beans>"):
        spring(broker.format(""))


def test_the_file_of_an_embedded_broker_is_named() -> None:
    """It is the one to import."""
    config = '<property name="config" value="classpath:a.xml"/><property name="start" value="true"/>'
    with pytest.raises(MigrationError, match=r"the broker's file is classpath:a\.xml: import that"):
        spring(f'<bean class="org.apache.activemq.xbean.BrokerFactoryBean">{config}</bean>')
