"""The selection of dead letters in an address: the names are those of the options of `redelivery dlq`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple
from urllib.parse import urlencode

from starlette.datastructures import FormData, QueryParams

from kafka_redelivery.consumers.clock import wall_clock_ms
from kafka_redelivery.dead_letters.choosing import FIELDS, SINGLE, selection_of
from kafka_redelivery.dead_letters.letter import FREE, Selection
from kafka_redelivery.dead_letters.where.columns import OF_CONTENT
from kafka_redelivery.dead_letters.where.grammar import ExpressionError
from kafka_redelivery.topology.errors import OptionError

UNDECIDED: Final = "undecided"
"""Stands for the states in which a letter needs a decision."""

ANY: Final = "any"
"""Stands for all states, where a page has another default."""

_LONGEST: Final = 4000
"""Characters of a field. What is longer is no question that a person has typed."""


class Chosen(NamedTuple):
    """What an address or a form selects."""

    values: Mapping[str, tuple[str, ...]]
    """What was given, by name, for the fields of a page."""

    selection: Selection
    """Selects nothing useful if there are faults."""

    faults: Mapping[str, str]
    """What is wrong, by name of the field."""

    @property
    def query(self) -> str:
        """The same as the query of an address."""
        return urlencode([(name, each) for name in FIELDS for each in self.values.get(name, ())])

    @property
    def key(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """What distinguishes it from others."""
        return tuple((name, self.values[name]) for name in FIELDS if self.values.get(name))

    def one(self, name: str) -> str:
        """Return the first value of a field, empty if there is none."""
        return next(iter(self.values.get(name, ())), "")

    def without(self, name: str, text: str) -> str:
        """Return the query without one value of a field; where letters of some states are the default, all then."""
        left = tuple(each for each in self.values.get(name, ()) if each != text)
        values = {**self.values, name: left or ((ANY,) if name == "state" else ())}
        return self._replace(values=values).query

    def query_with(self, **changes: str) -> str:
        """Return the query with some fields replaced, or left out if they are empty."""
        values = {**self.values, **{name: (text,) if text else () for name, text in changes.items()}}
        return self._replace(values=values).query


def chosen(given: QueryParams | FormData, *, hide_payloads: bool, state: str = ANY) -> Chosen:
    """Read a selection. Faults are returned, not raised, so that the page can show them beside their fields.

    Args:
        given: the query of an address, or a form.
        hide_payloads: whether questions about keys, values and headers are refused.
        state: which letters are meant if no state is given.
    """
    values, faults = _given(given)
    if state != ANY and "state" not in values:
        values["state"] = (state,)
    if hide_payloads:
        hidden = "payloads are hidden here, so that letters are not selected by it"
        faults |= {name: hidden for name in ("key", "header") if name in values}
    if faults:
        return Chosen(values, Selection(), faults)
    try:
        wanted = selection_of(values | {"state": _states(values.get("state", ()))}, wall_clock_ms())
    except ExpressionError as error:
        return Chosen(values, Selection(), {"where": str(error).removeprefix("--where, ")})
    except OptionError as error:
        return Chosen(values, Selection(), {error.option: str(error)})
    if hide_payloads and wanted.where is not None and wanted.where.columns & OF_CONTENT:
        named = ", ".join(sorted(wanted.where.columns & OF_CONTENT))
        fault = f"payloads are hidden here, so that a condition cannot ask for: {named}"
        return Chosen(values, Selection(), {"where": fault})
    return Chosen(values, wanted, {})


def _states(given: Iterable[str]) -> tuple[str, ...]:
    """Return the names of states, also of those that have a word for them together."""
    names = set(given)
    if ANY in names:
        return ()
    return tuple(sorted(names - {UNDECIDED} | (FREE if UNDECIDED in names else set())))


def _given(given: QueryParams | FormData) -> tuple[dict[str, tuple[str, ...]], dict[str, str]]:
    """Return what was given, by name, and which of it is too long."""
    values: dict[str, tuple[str, ...]] = {}
    faults: dict[str, str] = {}
    for name in FIELDS:
        found = tuple(each.strip() for each in given.getlist(name) if isinstance(each, str) and each.strip())
        if any(len(each) > _LONGEST for each in found):
            faults[name], found = f"is longer than {_LONGEST} characters", ()
        if found:
            values[name] = found[:1] if name in SINGLE else found
    return values, faults
