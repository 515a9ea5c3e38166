"""A source may have a handler of its own. What it leaves out is that of the section ``handler``."""

import json
from datetime import timedelta

import pytest

from kafka_redelivery.cli.commands.config import shown
from kafka_redelivery.topology.cluster.acls import AclRole, rights
from kafka_redelivery.topology.cluster.kafka_rights import Operation
from kafka_redelivery.topology.cluster.plan import needs_scheduler, plan
from kafka_redelivery.topology.config.loading import load_settings
from kafka_redelivery.topology.config.settings import Isolation, Ordering, Settings, json_schema
from kafka_redelivery.topology.explanation import explain
from kafka_redelivery.topology.faults import ConfigurationError


def configured(*lines: str, environment: dict[str, str] | None = None) -> Settings:
    """Load a configuration with these lines."""
    text = "\n".join(("group: billing", "kafka: {bootstrap.servers: localhost}", *lines))
    return load_settings(text, environment=environment)


def faults(*lines: str) -> list[str]:
    """Return place and problem of each fault."""
    with pytest.raises(ConfigurationError) as refused:
        configured(*lines)
    return [f"{fault.location.partition(' ')[2]}: {fault.problem}" for fault in refused.value.faults]


BOTH = (
    'handler: {callable: "shop:handle", deadline: 5s, ordering: key}',
    "sources: [{topic: orders}, {topic: refunds, handler: {slots: 4, ordering: partition}}]",
)


def test_a_source_overrides_single_settings() -> None:
    """Also with the default of a setting. All others are those of the section."""
    settings = configured(*BOTH)
    orders, refunds = settings.handlers["orders"], settings.handlers["refunds"]
    assert (orders.callable, orders.slots, orders.ordering) == ("shop:handle", 1, Ordering.KEY)
    assert (refunds.callable, refunds.slots, refunds.ordering) == ("shop:handle", 4, Ordering.PARTITION)
    assert orders.deadline == refunds.deadline == timedelta(seconds=5)


def test_a_deadline_can_be_taken_away() -> None:
    """``null`` is a value of its own."""
    settings = configured(BOTH[0], "sources: [{topic: orders, handler: {deadline: null}}]")
    assert settings.handlers["orders"].deadline is None


def test_sources_with_equal_handlers_share_one() -> None:
    """It does not matter where each of its settings is written."""
    own = ({"callable": "shop:handle", "slots": 2}, {"callable": "shop:handle"})
    sources = [{"topic": f"t{number}", "handler": each} for number, each in enumerate(own)]
    settings = configured("handler: {slots: 2}", f"sources: {json.dumps(sources)}")
    assert len({*settings.handlers.values()}) == 1


def test_without_any_callable_there_is_no_handler() -> None:
    """Such a file is for schedulers and tools."""
    settings = configured("sources: [{topic: orders}]")
    assert (settings.handlers, settings.handler_of("orders")) == ({}, None)


def test_another_topic_has_the_handler_of_the_section() -> None:
    """As `redelivery explain` asks for destinations that are no sources."""
    assert configured(*BOTH).handler_of("other") == configured(*BOTH).handler_of("orders")


def test_each_source_needs_a_handler_if_one_has_it() -> None:
    """The fault names the source. Without any callable it is reported once."""
    sources = 'sources: [{topic: orders, handler: {callable: "shop:charge"}}, {topic: refunds}]'
    [found] = faults(sources)
    assert found.startswith("sources.1: has no handler")
    [found] = faults("handler: {slots: 2}", "sources: [{topic: orders}, {topic: refunds}]")
    assert found == "handler.callable: is missing, and no source has its own"


def test_a_fault_is_where_the_setting_is_written() -> None:
    """Once, if several sources have it from the section."""
    sources = "sources: [{topic: a}, {topic: b}, {topic: c, handler: {deadline: 0s, slots: 9}}]"
    found = faults('handler: {callable: "shop:handle", deadline: 0s}', sources, "limits: {bufferRecords: 16}")
    assert found == [
        "handler.deadline: is zero: every record would fail before its handler starts",
        "sources.2.handler.deadline: is zero: every record would fail before its handler starts",
        "sources.2.handler.slots: is 9, more than the 8 records of limits.bufferRecords that each of 2 handlers gets",
    ]


def test_what_the_mode_refuses_is_refused_in_each_source() -> None:
    """A child process can only acknowledge the record that it handles."""
    sources = "sources: [{topic: a}, {topic: b, handler: {isolation: process}}]"
    [found] = faults('handler: {callable: "shop:handle"}', sources, "mode: client")
    assert found.startswith("sources.1.handler.isolation: is process")


def test_a_variable_sets_it() -> None:
    """As any other setting of an item."""
    settings = configured(*BOTH, environment={"REDELIVERY_SOURCES__0__HANDLER__ISOLATION": "process"})
    assert settings.handlers["orders"].isolation is Isolation.PROCESS
    assert settings.handlers["refunds"].isolation is Isolation.NONE


def test_effective_settings_are_shown() -> None:
    """`redelivery config show` prints the whole handler of a source that has its own."""
    first, second = shown(configured(*BOTH))["sources"]
    assert first["handler"] is None
    assert (second["handler"]["callable"], second["handler"]["deadline"]) == ("shop:handle", "5s")


def test_the_schema_gives_a_source_no_defaults() -> None:
    """An editor would show them, but a setting that is left out has the value of the section."""
    schemas = json_schema()["$defs"]
    assert "default" in schemas["HandlerDefaults"]["properties"]["slots"]
    assert all("default" not in each for each in schemas["SourceHandlerSection"]["properties"].values())


BLOCKING = "handler: {nonBlockingRedelivery: false}"
HANDLER = 'handler: {callable: "shop:handle"}'


@pytest.mark.parametrize(
    ("sources", "retried"),
    [
        ("[{topic: a}, {topic: b}]", True),
        (f"[{{topic: a}}, {{topic: b, {BLOCKING}}}]", True),
        (f"[{{topic: a, {BLOCKING}}}, {{topic: b, {BLOCKING}}}]", False),
    ],
)
def test_retry_topics_are_written_unless_every_source_waits_in_place(sources: str, *, retried: bool) -> None:
    """Then a scheduler has nothing to release, and workers need no right to write to them."""
    settings = configured(HANDLER, f"sources: {sources}")
    written = {
        right.resource.name
        for right in rights(settings, [AclRole.WORKER])
        if right.operation is Operation.WRITE and right.resource.name.startswith("billing.retry")
    }
    assert (needs_scheduler(settings), bool(written)) == (retried, retried)


def test_an_explanation_is_about_the_handler_of_its_source() -> None:
    """Where failed records wait in place, there is no retry topic."""
    settings = configured(HANDLER, f"sources: [{{topic: a}}, {{topic: b, {BLOCKING}}}]")
    assert explain(settings, "a")["tiers"]
    assert not explain(settings, "b")["tiers"]


@pytest.mark.parametrize("own", ["{ordering: key}", "{persistDeliveryCountBeforeDelivery: true}"])
def test_one_source_out_of_order_needs_room_for_metadata(own: str) -> None:
    """The broker's limit on the metadata of a commit is checked."""
    ordered = configured(HANDLER, "sources: [{topic: a}, {topic: b}]")
    mixed = configured(HANDLER, f"sources: [{{topic: a}}, {{topic: b, handler: {own}}}]")
    assert [plan(each, {}).out_of_order for each in (ordered, mixed)] == [False, True]


def test_a_source_without_a_handler_may_need_the_decorator_of_an_app() -> None:
    """As after a mistyped topic in @app.handler, which is then a source of its own."""
    with pytest.raises(ConfigurationError) as refused:
        configured("sources: [{topic: orders}, {topic: ordrs, handler: {callable: 'shop:charge'}}]")
    [fault] = refused.value.faults
    assert fault.fix.endswith('; or @app.handler("orders") if this is an App')
