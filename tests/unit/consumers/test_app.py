"""An App says the same as a configuration file, with the same rules and messages."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from pydantic.alias_generators import to_snake

from kafka_redelivery import App, DeadLetterStrategy, Record, RedeliveryPolicy
from kafka_redelivery.consumers.errors import HandlerLoadError
from kafka_redelivery.consumers.handlers.handler import check_importable
from kafka_redelivery.consumers.worker.run import load_parts
from kafka_redelivery.topology.config.loading import Override, load_settings, merge
from kafka_redelivery.topology.config.section import Section
from kafka_redelivery.topology.config.settings import Settings
from kafka_redelivery.topology.config.shape import CLIENT_SETTINGS, field_at, fields_at, is_list, is_mapping
from kafka_redelivery.topology.faults import ConfigurationError
from kafka_redelivery.topology.faults import Path as SettingPath

KAFKA = {"bootstrap.servers": "localhost:9092"}
BASE: dict[str, Any] = {"group": "billing", "kafka": KAFKA, "sources": [{"topic": "orders"}]}


def charge(record: Record) -> None:
    """A handler."""


def refund(record: Record) -> None:
    """Another one."""


class BrokenError(Exception):
    """An error of a handler."""


def leaves(path: SettingPath = ()) -> Iterator[SettingPath]:
    """Yield the path of each single setting; index 0 stands for the items of a list."""
    for name in fields_at(path):
        below = (*path, name, 0) if is_list((*path, name)) and fields_at((*path, name, 0)) else (*path, name)
        found = list(leaves(below))
        yield from found or [below]


def examples(path: SettingPath) -> list[object]:
    """Return some values of a setting, right or wrong."""
    if is_mapping(path):
        return [{7: "a.avsc"}]
    if is_list(path):
        return [["a:b"], []]
    field = field_at(path)
    assert field is not None
    kinds = [kind for kind in (field.annotation, *get_args(field.annotation)) if isinstance(kind, type)]
    found: list[object] = [each.value for kind in kinds if issubclass(kind, Enum) for each in kind]
    found += [True] if bool in kinds else []
    found += [3] if {int, float} & {*kinds} else []
    found += ["7s"] if timedelta in kinds else []
    return [*found, "a:b"]


def document(path: SettingPath, value: object) -> dict[str, Any]:
    """Return a configuration with one setting, beside what each has."""
    data: dict[str, Any] = merge(BASE, [Override(path, value, "")])
    for name, items in [*data.items()]:
        if name in {"sources", "outputs"} and isinstance(items, list):
            data[name] = [{"topic": name, **each} for each in items if isinstance(each, dict)]
    if "handler" in data:
        data["handler"] = {"callable": "a:b", **data["handler"]}
    return data


def in_python(value: Any, path: SettingPath = ()) -> Any:  # noqa: ANN401 - a part of a document
    """Return a document with names of Python."""
    if isinstance(value, list):
        return [in_python(each, (*path, 0)) for each in value]
    if not isinstance(value, dict):
        return value
    users = is_mapping(path) or any(step in CLIENT_SETTINGS for step in path)
    return {
        name if users else to_snake(name.replace("-", "_")): in_python(each, (*path, name))
        for name, each in value.items()
    }


def outcome(app: App | str) -> Settings | list[tuple[str, str]]:
    """Return the settings of an App or a text, or the problem and the fix of each fault."""
    try:
        return load_settings(app) if isinstance(app, str) else app.settings
    except ConfigurationError as error:
        return sorted((fault.problem, fault.fix) for fault in error.faults)


def test_each_setting_means_the_same_in_python(tmp_path: Path) -> None:
    """And the file that an App writes gives the same App."""
    file, accepted, refused = tmp_path / "redelivery.yaml", set(), set()
    for path in leaves():
        for value in examples(path):
            data = document(path, value)
            text = yaml.safe_dump(data).replace("${", "$${")
            app = App(**in_python(data), environment={})
            found = outcome(app)
            assert found == outcome(text), (path, value)
            if isinstance(found, Settings):
                accepted.add(path)
                file.write_text(app.to_yaml())
                assert App.from_config(file, environment={}).settings == found, (path, value)
            else:
                refused.add(path)
    assert len(accepted) > 100
    assert len(refused) > 100


@given(
    st.dictionaries(st.text(min_size=1), st.text() | st.booleans() | st.integers(-(2**60), 2**60)),
    st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\x85\u2028\u2029\ufeff\ufffe\uffff")),
)
def test_any_text_survives_the_file(client: Mapping[str, Any], destination: str) -> None:
    """Texts that look like numbers, YAML or placeholders stay texts."""
    kafka = {name: value for name, value in client.items() if name.isprintable() and str(value).isprintable()}
    app = App(
        group="billing",
        kafka={**kafka, **KAFKA},
        sources=[{"topic": "orders", "value": {"format": "avro", "registry": {"url": "http://a", "b": destination}}}],
        environment={},
    )
    found = outcome(app)
    if isinstance(found, Settings):
        assert load_settings(app.to_yaml()) == found


def test_decorators_say_what_sources_say() -> None:
    """Functions and classes become names, and a topic that only a decorator names is a source."""
    app = App(group="billing", kafka=KAFKA, sources=["orders"], handler={"ordering": "key"}, environment={})
    app.handler("orders", slots=4, deadline=timedelta(seconds=9), not_retryable=[BrokenError, ValueError])(charge)
    assert app.handler("refunds", "returns", format="json")(refund) is refund
    module = __name__
    expected = {
        "group": "billing",
        "kafka": KAFKA,
        "handler": {"ordering": "key"},
        "sources": [
            {
                "topic": "orders",
                "handler": {
                    "callable": f"{module}:charge",
                    "slots": 4,
                    "deadline": "9s",
                    "notRetryable": [f"{module}:BrokenError", "builtins:ValueError"],
                },
            },
            {"topic": "refunds", "handler": {"callable": f"{module}:refund"}, "value": {"format": "json"}},
            {"topic": "returns", "handler": {"callable": f"{module}:refund"}, "value": {"format": "json"}},
        ],
    }
    assert app.settings == load_settings(yaml.safe_dump(expected))
    assert load_settings(app.to_yaml()) == app.settings


def test_policies_are_given_as_values() -> None:
    """All their properties become settings."""
    policy = RedeliveryPolicy(maximum_redeliveries=2, use_exponential_back_off=True, collision_avoidance_factor=0.3)
    strategy = DeadLetterStrategy(topic="dead.{topic}", expiry_topic="old.{topic}", expiration=60_000)
    app = App(group="billing", kafka=KAFKA, sources=["orders"], policy=policy, dead_letter_strategy=strategy)
    entry = app.settings.entry("orders")
    assert (entry.redelivery_policy, entry.dead_letter_strategy) == (policy, strategy)


def test_decorators_add_to_a_file(tmp_path: Path) -> None:
    """The file has the settings, the code has the functions; variables override both."""
    file = tmp_path / "redelivery.yaml"
    file.write_text(
        "group: ${GROUP}\nkafka: {bootstrap.servers: a:1}\nsources: [{topic: orders, value: {format: json}}]\n"
    )
    app = App.from_config(file, environment={"GROUP": "billing", "REDELIVERY_SOURCES__0__HANDLER__SLOTS": "3"})
    app.handler("orders", slots=2)(charge)
    handler = app.settings.handler_of("orders")
    assert handler is not None
    assert (app.settings.group, handler.slots, handler.callable) == ("billing", 3, f"{__name__}:charge")
    assert app.settings.sources[0].value.format == "json"


def test_faults_name_the_argument_or_the_decorator(tmp_path: Path) -> None:
    """Or the line of the file."""
    file = tmp_path / "redelivery.yaml"
    file.write_text("group: billing\nkafka: {bootstrap.servers: a:1}\nlimits: {bach: 3}\n")
    app = App.from_config(file, environment={})
    app.handler("orders", slotz=2)(charge)
    with pytest.raises(ConfigurationError) as found:
        _ = app.settings
    locations = [fault.location for fault in found.value.faults]
    assert locations == [f"{file}:3:10 limits.bach", f'@app.handler("orders") of {__name__}:charge handler.slotz']
    with pytest.raises(ConfigurationError, match=r"App limits\.batch: must be at least 1, not 0; write 1 or more"):
        _ = App(group="billing", kafka=KAFKA, sources=["orders"], limits={"batch": 0}).settings


def test_a_topic_has_one_handler() -> None:
    """And a name one function, because a file could not tell two apart."""
    app = App(group="billing", kafka=KAFKA)
    app.handler("orders")(charge)
    with pytest.raises(ConfigurationError, match=r"orders has the handler .*:charge already; remove one of the two"):
        app.handler("orders")(refund)

    def made() -> Callable[[Record], None]:
        return lambda _: None

    app.handler("returns")(made())
    with pytest.raises(ConfigurationError, match=r"something else has the name .*; rename one of the two"):
        app.handler("refunds")(made())
    with pytest.raises(TypeError, match="name the topics"):
        app.handler(charge)  # type: ignore[arg-type]


def test_a_child_process_finds_the_function_that_was_given() -> None:
    """Not another one of its name, and none in the program that was started."""
    check_importable(f"{__name__}:charge", charge)
    with pytest.raises(HandlerLoadError, match="is another object than the one that was given"):
        check_importable(f"{__name__}:charge", refund)
    with pytest.raises(HandlerLoadError, match="move it into a module of its own, or remove isolation: process"):
        check_importable("__main__:charge", charge)


def test_an_object_has_no_name_in_a_file() -> None:
    """It may be a handler, but a file would name its class."""

    class Charger:
        def __call__(self, record: Record) -> None:
            pass

    Charger.__qualname__ = "charge"
    app = App(group="billing", kafka=KAFKA, environment={})
    app.handler("orders")(Charger())
    assert app.settings.sources[0].topic == "orders"
    with pytest.raises(HandlerLoadError, match="is another object than the one that was given"):
        app.to_yaml()


def test_classes_may_be_local() -> None:
    """Exceptions and types of values, as functions; and they may be in the arguments, too."""

    class LocalError(Exception):
        pass

    @dataclass
    class LocalOrder:
        id: int

    def ship(_: LocalOrder) -> None:
        pass

    app = App(group="billing", kafka=KAFKA, handler={"not_retryable": [LocalError], "callable": charge}, sources=["a"])
    app.handler("orders", value=LocalOrder, format="json", not_retryable=[])(ship)
    with ExitStack() as stack:
        parts = load_parts(app.settings, Path(), stack, app._given)
        by_default, own = parts.handlers.values()
    assert (by_default.call, by_default.not_retryable) == (charge, (LocalError,))
    assert own.not_retryable == ()
    assert own.value is not None
    assert own.value.of({"id": 7}) == LocalOrder(7)


def test_sections_of_the_package_are_accepted() -> None:
    """As an App of another one's settings."""
    first = App(group="billing", kafka=KAFKA, sources=["orders"], limits={"batch": 7}, environment={}).settings
    again = App(
        group="billing",
        kafka=KAFKA,
        sources=first.sources,
        limits=first.limits,
        environment={},
    )
    assert again.settings == first
    assert issubclass(type(first.limits), Section)


@dataclass
class Order:
    id: int


def test_the_type_of_the_values_is_a_class_or_its_name() -> None:
    """As in a file, so what has no name there is refused."""
    found = []
    for value in (Order, f"{__name__}:Order"):
        app = App(group="billing", kafka=KAFKA)
        app.handler("orders", value=value)(charge)
        found.append(app.settings.handlers["orders"].value)
    assert found == [f"{__name__}:Order"] * 2
    with pytest.raises(ConfigurationError, match=r"Order \| None is no class; annotate the first parameter"):
        App(group="billing", kafka=KAFKA).handler("orders", value=Order | None)(charge)


def test_a_decorator_declares_what_its_topics_depend_on() -> None:
    """Exception classes may be given themselves, and a name that is not in `dependencies` is refused."""
    app = App(group="billing", kafka=KAFKA, dependencies={"bank": {"unavailable": [BrokenError], "max_outage": "6h"}})
    app.handler("orders", dependencies=["bank"])(charge)

    ((name, bank),) = app.settings.handlers["orders"].dependencies

    assert (name, bank.max_outage) == ("bank", timedelta(hours=6))
    assert yaml.safe_load(app.to_yaml())["sources"][0]["dependencies"] == ["bank"]
    app.handler("refunds", dependencies=["bnk"])(refund)
    with pytest.raises(ConfigurationError, match="bnk"):
        app.settings  # noqa: B018 - it checks
