"""The App: what a configuration file says, in Python, with functions as handlers."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from enum import Enum
from pathlib import Path
from typing import Any, Final, Self, TypeVar

import yaml

from kafka_redelivery.consumers.embedding import Definition, Running
from kafka_redelivery.consumers.handlers.child import refuse_in_child
from kafka_redelivery.consumers.handlers.handler import check_importable
from kafka_redelivery.consumers.process.memory import infrequent_garbage_collection
from kafka_redelivery.consumers.process.signals import exit_on_signals, stop_on_signal
from kafka_redelivery.consumers.telemetry.tracing import spans_exported
from kafka_redelivery.consumers.testkit import HandlerKit
from kafka_redelivery.consumers.worker.run import run_worker
from kafka_redelivery.topology.classic.policy import RedeliveryPolicy
from kafka_redelivery.topology.config.document import Document, read_document
from kafka_redelivery.topology.config.loading import Override, settings_of
from kafka_redelivery.topology.config.section import Section
from kafka_redelivery.topology.config.settings import Settings
from kafka_redelivery.topology.config.shape import CLIENT_SETTINGS, is_mapping, match_name
from kafka_redelivery.topology.faults import ConfigurationError, Fault, dotted
from kafka_redelivery.topology.faults import Path as SettingPath
from kafka_redelivery.topology.policy.entry import DeadLetterStrategy
from kafka_redelivery.transport.tokens import find_functions_in

_Function = TypeVar("_Function", bound=Callable[..., Any])

_NAME: Final = "App"
"""The location of faults in the arguments of an App."""


class App:
    """Sources, handlers and settings of a service.

    Everything that a configuration file can say can be said here, and the other way round; only functions need no
    names here. The rules and the messages are the same::

        app = App.from_config("redelivery.yaml")

        @app.handler("orders", slots=4)
        def charge(record: Record, context: Context) -> None: ...

    `redelivery worker --app service:app` runs it in a process of its own, :meth:`running` within another program.
    Variables ``REDELIVERY_...`` of the environment override what is said here. Creating an App opens nothing.
    """

    def __init__(
        self,
        *,
        group: str,
        kafka: Mapping[str, Any],
        sources: Sequence[str | Mapping[str, Any] | Section] = (),
        policy: RedeliveryPolicy | None = None,
        dead_letter_strategy: DeadLetterStrategy | None = None,
        environment: Mapping[str, str] | None = None,
        base: str | Path | None = None,
        **settings: Any,  # noqa: ANN401 - the sections of the file
    ) -> None:
        """Create an App without handlers. Nothing is checked before :attr:`settings` is read.

        Args:
            group: the consumer group.
            kafka: settings of the Kafka clients, under Kafka's names.
            sources: topics, or sections such as ``{"topic": "orders", "value": {"format": "json"}}``. A topic that
                only :meth:`handler` names is a source, too.
            policy: the redelivery policy of all sources, ``policyEntry.redeliveryPolicy`` in a file.
            dead_letter_strategy: ``policyEntry.deadLetterStrategy`` in a file.
            environment: variables that override settings; by default those of the process.
            base: the folder to which paths of schemas are relative; by default the current one.
            settings: the other sections of a file, with names of Python: ``limits={"shutdown_timeout": "10s"}``.
        """
        entry: dict[str, Any] = dict(settings.pop("policy_entry", {}))
        if policy is not None:
            entry["redelivery_policy"] = policy
        if dead_letter_strategy is not None:
            entry["dead_letter_strategy"] = dead_letter_strategy
        listed = [{"topic": each} if isinstance(each, str) else each for each in sources]
        given = {"group": group, "kafka": kafka, "sources": listed, **settings}
        if entry:
            given["policy_entry"] = entry
        data = _plain(given)
        self._read: Callable[[Mapping[str, str]], Document] = lambda _: Document(_NAME, data)
        self._base = Path("." if base is None else base).absolute()
        self._environment = environment
        self._handlers: dict[str, dict[str, Any]] = {}
        """The options of each topic that a decorator names."""

        self._given: dict[str, object] = {}
        """The functions and classes in the arguments and decorators by their names."""

        self._give(given, _NAME)

    @classmethod
    def from_config(cls, file: str | Path, *, environment: Mapping[str, str] | None = None) -> Self:
        """Create an App of a configuration file. Handlers that it names are imported when the App runs.

        Args:
            file: the configuration.
            environment: overrides settings and replaces ``${NAME}``; by default that of this process.

        Raises:
            OSError: the file cannot be read.
        """
        path = Path(file)
        text = path.read_text(encoding="utf-8")
        app = cls(group="", kafka={}, environment=environment, base=path.absolute().parent)
        app._read = lambda variables: read_document(text, str(path), variables)
        return app

    def handler(
        self,
        *topics: str,
        format: str | None = None,  # noqa: A002 - the name in the file
        dependencies: Sequence[str] = (),
        **options: Any,  # noqa: ANN401 - the fields of the section
    ) -> Callable[[_Function], _Function]:
        """Return a decorator that makes a function, or a class, the handler of source topics, and returns it unchanged.

        Args:
            topics: the topics, each a source, listed or not.
            format: the format of the values, ``sources.value.format`` in a file.
            dependencies: names in the setting ``dependencies``: while one of them is away, the topics wait.
            options: the fields of ``sources.handler`` in a file, with names of Python: ``slots``, ``ordering``,
                ``deadline``, ``not_retryable`` and so on. What is left out is that of the section ``handler``.
                Exception classes may be given themselves.

        Raises:
            ConfigurationError: a topic has a handler already, or something else has the name of the function.
            TypeError: no topic is named.
        """
        if not topics or not all(isinstance(topic, str) for topic in topics):
            raise TypeError('name the topics: @app.handler("orders")')

        def register(function: _Function) -> _Function:
            name = _name(function)
            location = f"@app.handler of {name}"
            if not isinstance(options.get("value"), str | type | None):
                fix = "annotate the first parameter with it instead, or give it a name in a module: value='module:Name'"
                raise ConfigurationError((Fault(f"{location} value", f"{options['value']} is no class", fix),))
            self._give([function, options], location)
            section: dict[str, Any] = {"handler": {**options, "callable": name}}
            if format is not None:
                section["value"] = {"format": format}
            if dependencies:
                section["dependencies"] = list(dependencies)
            for topic in topics:
                if topic in self._handlers:
                    problem = f"{topic} has the handler {self._handlers[topic]['handler']['callable']} already"
                    raise ConfigurationError((Fault(location, problem, "remove one of the two"),))
                self._handlers[topic] = section
            return function

        return register

    def _give(self, value: object, location: str) -> None:
        """Note each function and class in a setting under its name."""
        for each in _named(value):
            name = _name(each)
            if self._given.setdefault(name, each) is not each:
                raise ConfigurationError(
                    (Fault(location, f"something else has the name {name}", "rename one of the two"),)
                )

    @property
    def settings(self) -> Settings:
        """The settings, checked.

        Raises:
            ConfigurationError: they have faults, which name the argument, the decorator, or the line of the file.
        """
        return self.settings_with(())

    def settings_with(self, overrides: Sequence[str]) -> Settings:
        """Return the settings, overridden by ``name=value`` of each ``--set`` flag.

        Raises:
            ConfigurationError: as :attr:`settings`.
        """
        variables = os.environ if self._environment is None else self._environment
        document = self._read(variables)
        settings = settings_of(
            document, additions=list(self._additions(document.data)), environment=variables, overrides=overrides
        )
        find_functions_in(settings.kafka, [str(self._base)])
        return settings

    def _additions(self, data: Any) -> Iterator[Override]:  # noqa: ANN401 - a YAML document
        """Yield what the decorators say."""
        listed = data.get("sources") if isinstance(data, dict) else None
        sources = listed if isinstance(listed, list) else []
        places = {
            each["topic"]: index for index, each in enumerate(sources) if isinstance(each, dict) and "topic" in each
        }
        for topic, section in self._handlers.items():
            location = f'@app.handler("{topic}") of {section["handler"]["callable"]}'
            index = places.get(topic)
            if index is None:
                index = places[topic] = max(len(sources), len(places))
                yield Override(("sources", index, "topic"), topic, location)
            for path, value in _leaves(_plain(section, ("sources", 0)), ("sources", index)):
                yield Override(path, value, f"{location} {dotted(path[2:])}")

    def to_yaml(self) -> str:
        """Return the settings as the text of a configuration file, with handlers as ``module:name``.

        Only what was set is in it, secrets included. No other process can import a function that is defined within
        another one or in ``__main__``; the file still serves all commands that call no handler.

        Raises:
            ConfigurationError: as :attr:`settings`.
            HandlerLoadError: the name of a handler stands for another object, as that of an object or a method does.
        """
        for name, given in self._given.items():
            if "<" not in name and not name.startswith("__main__:"):
                check_importable(name, given)
        document = self.settings.model_dump(mode="json", by_alias=True, exclude_unset=True)
        return yaml.safe_dump(_escaped(document), sort_keys=False, allow_unicode=True)

    def running(self, *, scheduler: bool = False) -> Running:
        """Return the App as a context manager: it runs, in threads of this process, while the block runs.

        With ``async with`` asynchronous handlers run on the event loop of the caller, with ``with`` on one of their
        own; all others run in threads. Records are fetched in a thread in both cases. Signals stay those of the
        program. At the end of the block the worker stops within ``limits.shutdownTimeout``; records that are not
        finished by then are delivered again.

        If the worker or scheduler fails, the block of ``async with`` is cancelled, and the error is raised at its end.
        The block of ``with`` goes on, and the error is raised at its end or by ``wait()``; ``failed`` has it.

        Args:
            scheduler: run a scheduler, too.

        Raises, when the block is entered:
            ConfigurationError, HandlerLoadError, SerdeError: what is configured cannot run.
            TopologyRefusedError: the topics would lose data.
            TransportError: Kafka does not answer, or refuses a request for good.
        """
        return Running(self.definition, scheduler=scheduler)

    def run(self, *, scheduler: bool = False, overrides: Sequence[str] = ()) -> None:
        """Run a worker until SIGTERM or SIGINT, as `redelivery worker` does. For the main thread of a program.

        After a signal the process ends within ``limits.shutdownTimeout``, whatever the program does behind this call.
        A signal during the start ends it at once, also the first process of a container.

        Args:
            scheduler: run a scheduler, too.
            overrides: as of :meth:`settings_with`.

        Raises:
            HaltedError: going on would lose data.
            ConfigurationError, HandlerLoadError, SerdeError, TopologyRefusedError, TransportError: as :meth:`running`.
        """
        refuse_in_child()
        exit_on_signals()
        definition = self.definition(overrides)
        if not scheduler:
            run_worker(definition.settings, definition.base, definition.given)
            return
        with (
            spans_exported(definition.settings.group),
            Running(lambda: definition, scheduler=True) as running,
            infrequent_garbage_collection(),
            stop_on_signal(running.stop, definition.settings.limits.shutdown_timeout),
        ):
            running.wait()

    def kit(
        self,
        source: str | None = None,
        *,
        handler: Callable[..., Any] | None = None,
        schemas: Mapping[int, str | Path] | None = None,
    ) -> HandlerKit:
        """Return a kit that tests the handler of a source, without Kafka.

        Args:
            source: its topic; by default the only one.
            handler: called instead of the handler of the App.
            schemas: the ``.avsc`` file of each schema id, used in place of every schema registry.

        Raises:
            ConfigurationError, HandlerLoadError, SerdeError, ValueError: as :meth:`HandlerKit.from_config`.
        """
        found = self.definition()
        return HandlerKit.from_settings(
            found.settings, found.base, given=found.given, source=source, handler=handler, schemas=schemas
        )

    def definition(self, overrides: Sequence[str] = ()) -> Definition:
        """Return what is to run; arguments and errors as of :meth:`settings_with`."""
        return Definition(self.settings_with(overrides), self._base, self._given)


def _name(target: object) -> str:
    """Return ``module:qualname`` of a function, a class or an object."""
    named = target if hasattr(target, "__qualname__") else type(target)
    return f"{getattr(target, '__module__', named.__module__)}:{getattr(named, '__qualname__', '')}"


def _named(value: object) -> Iterator[object]:
    """Yield the functions, classes and objects in a setting that stand for themselves instead of their names."""
    if isinstance(value, Mapping):
        value = [*value.values()]
    if isinstance(value, (list, tuple)):
        for each in value:
            yield from _named(each)
    elif callable(value):
        yield value


def _plain(value: Any, path: SettingPath = ()) -> Any:  # noqa: ANN401 - any setting
    """Return a setting as it is in a file; names that are not known stay as they are."""
    if isinstance(value, Section):
        return value.model_dump(mode="json", by_alias=True, exclude_unset=True)
    if isinstance(value, (RedeliveryPolicy, DeadLetterStrategy)):
        value = {
            "expiry_address" if each.name == "expiry_topic" else each.name: getattr(value, each.name)
            for each in fields(value)
            if getattr(value, each.name) != each.default
        }
    if isinstance(value, Mapping):
        return dict(_items(value, path))
    if isinstance(value, (list, tuple)):
        return [_plain(each, (*path, index)) for index, each in enumerate(value)]
    if isinstance(value, Enum):
        return value.value
    if callable(value):
        return _name(value)
    return value


def _items(value: Mapping[Any, Any], path: SettingPath) -> Iterator[tuple[Any, Any]]:
    users = is_mapping(path) or any(step in CLIENT_SETTINGS for step in path)
    for name, each in value.items():
        known = None if users or not isinstance(name, str) else match_name(name, path)
        below = name if known is None else known
        yield below, _plain(each, (*path, below))


def _leaves(value: Any, path: SettingPath) -> Iterator[tuple[SettingPath, Any]]:  # noqa: ANN401 - a part of a document
    if isinstance(value, dict) and value:
        for name, each in value.items():
            yield from _leaves(each, (*path, name))
    else:
        yield path, value


def _escaped(value: Any) -> Any:  # noqa: ANN401 - a part of a document
    """Return a document in which no text is a placeholder."""
    if isinstance(value, dict):
        return {name: _escaped(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_escaped(each) for each in value]
    return value.replace("${", "$${") if isinstance(value, str) else value
