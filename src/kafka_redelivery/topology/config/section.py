"""The base classes of all sections of the configuration file."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, ValidationInfo, field_validator
from pydantic.alias_generators import to_camel

from kafka_redelivery.topology.durations import format_duration, parse_duration


def _as_text(schema: dict[str, Any]) -> None:
    schema.pop("format", None)
    schema |= {"type": "string", "pattern": r"^\d+(\.\d+)?\s*(ms|s|m|h|d)$"}


Duration = Annotated[
    timedelta,
    BeforeValidator(parse_duration),
    PlainSerializer(format_duration, return_type=str),
    Field(json_schema_extra=_as_text),
]
"""``250ms``, ``1s``, ``90s``, ``5m``, ``1h``, ``7d``."""


def milliseconds(duration: timedelta | None) -> int | None:
    """Return an optional duration in whole milliseconds."""
    return None if duration is None else duration // timedelta(milliseconds=1)


_NUMBERS = (int, float, int | None, float | None)


class Section(BaseModel):
    """A frozen section with camelCase names that refuses unknown names.

    The messages of its validators have the form ``problem; fix``.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True)

    @field_validator("*", mode="before")
    @classmethod
    def _refuse_bool_as_number(cls, value: object, info: ValidationInfo) -> object:
        """Refuse ``slots: yes``, which pydantic would read as 1."""
        if isinstance(value, bool) and cls.model_fields[str(info.field_name)].annotation in _NUMBERS:
            msg = "must be a number, not true or false; write a number"
            raise ValueError(msg)
        return value


def _to_kebab(name: str) -> str:
    return name.replace("_", "-")


class KebabSection(Section):
    """A section with Artemis's names, such as ``redelivery-delay``."""

    model_config = ConfigDict(alias_generator=_to_kebab)
