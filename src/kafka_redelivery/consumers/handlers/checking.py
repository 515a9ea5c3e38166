"""Checks the handlers of a configuration without running them."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

from kafka_redelivery.consumers.errors import HandlerLoadError
from kafka_redelivery.consumers.handlers.child_process_pool import formats_of
from kafka_redelivery.consumers.handlers.handler import (
    find_handler,
    find_module,
    find_probe,
    is_asynchronous,
    load_exceptions,
    takes_batch,
)
from kafka_redelivery.consumers.handlers.values import value_parameter
from kafka_redelivery.topology.config.rules.clients import OAUTH_CB, bare_name
from kafka_redelivery.topology.config.settings import HandlerDefaults, HandlerSection, Isolation, Ordering, Settings
from kafka_redelivery.topology.faults import Path as SettingPath
from kafka_redelivery.topology.faults import TopologyFault, Violation, warning


def handler_violations(settings: Settings, base: Path, warnings: list[TopologyFault]) -> Iterator[Violation]:
    """Yield the handlers whose values have a type that a worker would refuse, and names that do not exist.

    It imports the modules of the handlers, but instantiates no class. A module that cannot be imported here, because it
    is installed elsewhere, is left to the worker.

    Args:
        settings: the configuration.
        base: the folder of the configuration, which is searched for modules.
        warnings: gets what is probably a mistake.
    """
    with _modules_of(base), redirect_stdout(sys.stderr):  # a module may print, and standard output may be JSON
        yield from [*_of_handlers(settings, warnings), *_of_names(settings)]


@contextmanager
def _modules_of(folder: Path) -> Iterator[None]:
    """Import from a folder, too, and forget its modules afterwards: in another folder these names are others."""
    before = set(sys.modules)
    sys.path.append(str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))
        new = set(sys.modules) - before
        own = {name for name in new if "." not in name and _is_in(folder, sys.modules[name])}
        for name in new:
            if name.partition(".")[0] in own:
                del sys.modules[name]
        importlib.invalidate_caches()


def _is_in(folder: Path, module: ModuleType) -> bool:
    """Whether a module or package is directly in a folder, and not in an environment below it."""
    places = [getattr(module, "__file__", None), *getattr(module, "__path__", ())]
    return any(place is not None and Path(place).parent == folder for place in places)


def _of_names(settings: Settings) -> Iterator[Violation]:
    """Yield the exception classes and functions that the configuration names and that do not exist."""
    for path, targets, load in _names(settings):
        for index, target in enumerate(targets):
            try:
                find_module(target if ":" in target else "builtins")
            except HandlerLoadError:
                continue
            try:
                load(target)
            except HandlerLoadError as error:
                place = path if path[-1] == "probe" or path[0] == "kafka" else (*path, index)
                yield Violation(place, f"{error.target}: {error.problem}", error.fix)


def _names(settings: Settings) -> Iterator[tuple[SettingPath, Sequence[str], Callable[[str], object]]]:
    """Yield the settings that name exception classes or a function, with their names and what loads one."""
    for name, value in settings.kafka.items():
        if bare_name(name) == OAUTH_CB:
            yield ("kafka", name), [str(value)], find_handler
    sections: dict[SettingPath, HandlerDefaults | None] = {("handler",): settings.handler}
    sections |= {("sources", index, "handler"): source.handler for index, source in enumerate(settings.sources)}
    for path, section in sections.items():
        if section is not None:
            yield (*path, "notRetryable"), section.not_retryable, lambda name: load_exceptions([name], "")
    for name, dependency in settings.dependencies.items():
        unavailable = ("dependencies", name, "unavailable")
        yield unavailable, dependency.unavailable, lambda name: load_exceptions([name], "")
        if dependency.probe is not None:
            yield ("dependencies", name, "probe"), [dependency.probe], lambda name: find_probe(name, "")


def _of_handlers(settings: Settings, warnings: list[TopologyFault]) -> Iterator[Violation]:
    seen: set[HandlerSection] = set()
    for index, source in enumerate(settings.sources):
        section = settings.handler_of(source.topic)
        if section is None or section.vectorized or section in seen:
            continue
        seen.add(section)
        try:
            _check(section, settings, warnings)
        except HandlerLoadError as error:
            field = "value" if error.target == section.value else "callable"
            own = source.handler is not None and field in source.handler.model_fields_set
            path = ("sources", index, "handler", field) if own else ("handler", field)
            yield Violation(path, f"{error.target}: {error.problem}", error.fix)


def _check(section: HandlerSection, settings: Settings, warnings: list[TopologyFault]) -> None:
    targets = [section.callable] if section.value is None else [section.callable, section.value]
    try:
        for target in targets:
            find_module(target)
    except HandlerLoadError:
        return
    function, declared = _called(find_handler(section.callable)), None
    if section.value is not None:
        declared = find_handler(section.value)
    if function is not None:
        parameter = value_parameter(function, declared, target=section.callable)
        batch = takes_batch(function, parameter, section.takes, target=section.callable)
        warnings += _probable_mistakes(section, batch=batch, asynchronous=is_asynchronous(function))
        if parameter.type is not None:
            parameter.type.check_source(formats_of(settings, section).undecoded, section.callable)


def _probable_mistakes(section: HandlerSection, *, batch: bool, asynchronous: bool) -> Iterator[TopologyFault]:
    waits = not section.non_blocking_redelivery or section.dependencies
    if batch and waits and section.ordering is Ordering.PARTITION:
        why = "dependencies" if section.non_blocking_redelivery else "nonBlockingRedelivery: false"
        problem = f"takes batches, with {why} and ordering: partition"
        loss = "each batch has one record, because those behind it may have to wait for it"
        yield warning(f"handler {section.callable}", problem, loss, "set ordering: key")
    for name, dependency in section.dependencies:
        if dependency.deadline and not asynchronous and section.isolation is Isolation.NONE:
            problem = f"is true, and {section.callable} runs in threads, which cannot be stopped"
            loss = "a call that hangs keeps its slot, and the worker ends when calls hang in all of them"
            fix = "give its clients time-outs, make it an async def, or set isolation: process"
            yield warning(f"dependencies.{name}.deadline", problem, loss, fix)


def _called(found: Any) -> Any:  # noqa: ANN401 - the user's
    """Return what is called for a record; ``None``: only an object of the class would show it."""
    if not inspect.isclass(found):
        return found if callable(found) else None
    call = next((vars(each)["__call__"] for each in found.__mro__ if "__call__" in vars(each)), None)
    return None if call is None else partial(call, None)  # without self
