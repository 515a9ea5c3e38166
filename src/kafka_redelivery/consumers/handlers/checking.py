"""Checks the handlers of a configuration without running them."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

from kafka_redelivery.consumers.errors import HandlerLoadError
from kafka_redelivery.consumers.handlers.child_process_pool import formats_of
from kafka_redelivery.consumers.handlers.handler import find_handler, find_module, takes_batch
from kafka_redelivery.consumers.handlers.values import value_parameter
from kafka_redelivery.topology.config.settings import HandlerSection, Settings
from kafka_redelivery.topology.faults import Violation


def handler_violations(settings: Settings, base: Path) -> Iterator[Violation]:
    """Yield the handlers whose values have a type that a worker would refuse.

    It imports the modules of the handlers, but instantiates no class. A module that cannot be imported here, because it
    is installed elsewhere, is left to the worker.

    Args:
        settings: the configuration.
        base: the folder of the configuration, which is searched for modules.
    """
    with _modules_of(base):
        yield from list(_violations(settings))


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


def _violations(settings: Settings) -> Iterator[Violation]:
    seen: set[HandlerSection] = set()
    for index, source in enumerate(settings.sources):
        section = settings.handler_of(source.topic)
        if section is None or section.vectorized or section in seen:
            continue
        seen.add(section)
        try:
            with redirect_stdout(sys.stderr):  # a module may print, and standard output may be JSON
                _check(section, settings)
        except HandlerLoadError as error:
            field = "value" if error.target == section.value else "callable"
            own = source.handler is not None and field in source.handler.model_fields_set
            path = ("sources", index, "handler", field) if own else ("handler", field)
            yield Violation(path, f"{error.target} {error.problem}", error.fix)


def _check(section: HandlerSection, settings: Settings) -> None:
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
        takes_batch(function, parameter, section.takes, target=section.callable)
        if parameter.type is not None:
            parameter.type.check_source(formats_of(settings, section).undecoded, section.callable)


def _called(found: Any) -> Any:  # noqa: ANN401 - the user's
    """Return what is called for a record; ``None``: only an object of the class would show it."""
    if not inspect.isclass(found):
        return found if callable(found) else None
    call = next((vars(each)["__call__"] for each in found.__mro__ if "__call__" in vars(each)), None)
    return None if call is None else partial(call, None)  # without self
