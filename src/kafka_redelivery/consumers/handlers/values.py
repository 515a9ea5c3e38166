"""Typed values: a handler gets an object of its own type instead of what the codec has decoded.

The type is that of the handler's first parameter, or one that is given beside the handler. It is looked at once, at the
start. Libraries of types are imported only for a handler with one of their types.
"""

from __future__ import annotations

import functools
import inspect
import re
import sys
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import is_dataclass
from typing import Annotated, Any, Final, Literal, NamedTuple, TypeAlias, TypeVar, Union, get_args, get_origin

from kafka_redelivery.consumers.errors import HandlerLoadError, InvalidValueError
from kafka_redelivery.consumers.handlers.batch import Batch
from kafka_redelivery.consumers.handlers.record import Context, Record
from kafka_redelivery.serdes.objects import plain

_KINDS: Final = "a dataclass, a pydantic model, a TypedDict, a msgspec struct or a class of Protobuf"
_FAULTS: Final = 3
"""Number of faults that an error names."""


Takes: TypeAlias = Literal["record", "batch", "arrow"]
"""What the configuration says that a handler is called with: records, a :class:`Batch`, or an Arrow record batch."""


class DeclaredValues(NamedTuple):
    """What the configuration says about the values that a handler gets."""

    type: str | None = None
    """Their type as ``package.module:Class``; ``None`` = that of the handler's annotation."""

    undecoded: str = ""
    """A source whose values are bytes or text without fields; empty = none."""

    takes: Takes = "record"
    """See :data:`Takes`. No value of an Arrow record batch is converted."""


class ValueParameter(NamedTuple):
    """What the first parameter of a handler takes."""

    type: ValueType | None
    """``None``: what the codec has decoded."""

    alone: bool
    """Whether it takes the value and not the record."""

    batch: bool | None = False
    """Whether it takes a :class:`Batch`; ``None``: no annotation says what it takes."""


def value_parameter(function: Callable[..., object], declared: object = None, *, target: str) -> ValueParameter:
    """Find out what the first parameter of a handler takes.

    Args:
        function: the handler.
        declared: the type that is given beside the handler; ``None`` = none.
        target: the handler's name, for errors.

    Raises:
        HandlerLoadError: the annotation cannot be resolved, or means no record and no supported type, or is another
            type than the declared one.
    """
    annotation = _annotation(function, declared, target)
    found, alone, batch = _value_of(annotation)
    if declared is None:
        return ValueParameter(None if found is None else ValueType(found, target), alone, batch)
    if found is not None and found != declared:
        problem = f"takes {_name(found)}, but its value is declared to be {_name(declared)}"
        raise HandlerLoadError(target, problem, "declare the same type in both places, or in one only")
    return ValueParameter(ValueType(declared, target), alone, batch)


def _value_of(annotation: object) -> tuple[object, bool, bool | None]:
    """Return the type in an annotation, ``None`` for none, and the other parts of a :class:`ValueParameter`."""
    inner = get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation
    kind = get_origin(inner) or inner
    if kind is Record or kind is Batch:
        value = next(iter(get_args(inner)), Any)
        return None if _is_open(value) else value, False, kind is Batch
    if _is_open(inner) or getattr(inner, "_is_protocol", False):  # a protocol describes the record, or the batch
        return None, False, None
    return annotation, True, False


def _is_open(annotation: object) -> bool:
    return annotation is Any or annotation is object or isinstance(annotation, TypeVar)


def _annotation(function: Callable[..., object], declared: object, target: str) -> object:
    """Return the annotation of the first parameter, resolved if it is text; ``Any`` if there is none."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return Any
    positional = {inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD}
    if not parameters or parameters[0].kind not in positional or parameters[0].annotation is inspect.Parameter.empty:
        return Any
    written = parameters[0].annotation
    # What a module imports for type checkers only is not there: the record itself is then known by its name.
    known: dict[str, object] = {"Record": Record, "Batch": Batch, "kafka_redelivery": sys.modules["kafka_redelivery"]}
    if isinstance(declared, type):
        known[declared.__name__] = declared
    holder = types.SimpleNamespace(__annotations__={"value": written})
    try:
        return typing.get_type_hints(holder, known | _globals(function), include_extras=True)["value"]
    except Exception as error:
        text = written if isinstance(written, str) else _name(written)
        problem = f"has a first parameter of type {text}, which cannot be resolved: {type(error).__name__}: {error}"
        fix = "import the type outside `if TYPE_CHECKING`, at the top of the module, or name it in handler.value"
        raise HandlerLoadError(target, problem, fix) from error


def _globals(function: object) -> dict[str, Any]:
    while True:
        if isinstance(function, functools.partial):
            function = function.func
        elif hasattr(function, "__wrapped__"):
            function = function.__wrapped__
        elif inspect.ismethod(function):
            function = function.__func__
        elif not hasattr(function, "__globals__") and hasattr(type(function), "__call__"):  # noqa: B004 - of the class
            function = type(function).__call__
            if not inspect.isfunction(function) and not hasattr(function, "__wrapped__"):
                return {}
        else:
            return dict(getattr(function, "__globals__", {}))


class ValueType:
    """A type of values. Thread-safe."""

    def __init__(self, of: object, target: str) -> None:
        """Prepare the conversion.

        Args:
            of: one of the supported types, a union of them, or of them and ``None``, which is a tombstone.
            target: the handler's name, for errors.

        Raises:
            HandlerLoadError: the type is not supported, or cannot be used.
        """
        self._name = _name(of)
        members = list(_members(of))
        kinds = {_library(each, self._name, target) for each in members if each is not types.NoneType}
        self._optional = types.NoneType in members
        if len(kinds) != 1:
            problem = f"takes {self._name}, which has no type of a value, or mixes types of several libraries"
            raise HandlerLoadError(target, problem, f"take one of these: {_KINDS}")
        library = kinds.pop()
        self._plain = library != "protobuf"
        found = {"msgspec": _msgspec, "protobuf": _protobuf, "pydantic": _pydantic}[library](of, target)
        self._convert, self._error, self._explain, self._takes_bytes = found

    def check_source(self, undecoded: str, target: str) -> None:
        """Check that values of the type can come from a source.

        Args:
            undecoded: the source, if its codec decodes no fields but only bytes or text; empty = another one.
            target: the handler's name, for errors.

        Raises:
            HandlerLoadError: no value of the source would fit.
        """
        if undecoded and not self._takes_bytes:
            problem = f"takes {self._name}, but the values of the source {undecoded} are bytes or text without fields"
            fix = f"write their format in the configuration, such as {{topic: {undecoded}, value: {{format: json}}}}"
            raise HandlerLoadError(target, problem, fix)

    def of(self, decoded: Any) -> Any:  # noqa: ANN401 - an object of the user's type
        """Return the object that a decoded value stands for.

        Raises:
            InvalidValueError: the value does not fit the type.
            Exception: whatever code of the user raises that the type calls, except what its library takes for a fault
                of the value: ``ValueError`` and ``AssertionError`` in pydantic, ``ValueError`` and ``TypeError`` in
                msgspec.
        """
        if decoded is None:
            if self._optional:
                return None
            text = f"$: null or a tombstone, but the handler takes {self._name} without None"
            raise InvalidValueError(text, text)
        if self._plain and type(decoded) is not dict and hasattr(decoded, "DESCRIPTOR"):
            decoded = plain(decoded)  # a message of Protobuf
        try:
            return self._convert(decoded)
        except self._error as error:
            raise InvalidValueError(*self._explain(error)) from error


def _name(of: object) -> str:
    return of.__qualname__ if isinstance(of, type) else str(of).replace("typing.", "")


def _members(of: object) -> Iterator[object]:
    origin = get_origin(of)
    if hasattr(of, "__value__") and not isinstance(of, type):  # type Name = ...
        yield from _members(of.__value__)
    elif origin is Annotated:
        yield from _members(get_args(of)[0])
    elif origin in {Union, types.UnionType}:
        for each in get_args(of):
            yield from _members(each)
    else:
        yield of


def _library(member: object, name: str, target: str) -> str:
    """Return which library converts values to a type."""
    kind = get_origin(member) or member  # the class of Page[Order]
    # A class of a message that is made at run time has no module.
    if isinstance(kind, type) and not (kind.__module__ or "").startswith("kafka_redelivery."):
        msgspec, pydantic = sys.modules.get("msgspec"), sys.modules.get("pydantic")
        protobuf = sys.modules.get("google.protobuf.message")
        if msgspec and issubclass(kind, msgspec.Struct):
            return "msgspec"
        if protobuf and issubclass(kind, protobuf.Message):
            return "protobuf"
        if is_dataclass(kind) or _is_typed_dict(kind) or (pydantic and issubclass(kind, pydantic.BaseModel)):
            return "pydantic"
    named = "" if _name(member) == name else f" in {name}"
    problem = f"has a first parameter or a value of type {_name(member)}{named}, which is neither Record nor {_KINDS}"
    raise HandlerLoadError(target, problem, "annotate the record with Record, or its value with a type of these kinds")


def _is_typed_dict(kind: type) -> bool:
    # typing_extensions has a class of its own, which typing.is_typeddict does not know before Python 3.12.
    return issubclass(kind, dict) and hasattr(kind, "__total__") and hasattr(kind, "__required_keys__")


_Explain = Callable[[Any], tuple[str, str]]
"""Makes two texts of an error: one for all details, and one with nothing of the value."""

_Conversion = tuple[Callable[[Any], Any], type[Exception], _Explain, bool]
"""The conversion, its error for a value that does not fit, what explains it, and whether bytes or text may fit."""


def _pydantic(of: Any, target: str) -> _Conversion:  # noqa: ANN401 - a type
    from pydantic import PydanticUserError, TypeAdapter, ValidationError  # noqa: PLC0415 - see above
    from pydantic_core.core_schema import ErrorType  # noqa: PLC0415 - as before

    try:
        adapter: TypeAdapter[Any] = TypeAdapter(of)
        adapter.rebuild(raise_errors=True)
    except (PydanticUserError, NameError, TypeError) as error:
        raise _unusable(of, target, error) from error
    names = frozenset(_names(adapter.core_schema))
    kinds = frozenset(get_args(ErrorType))

    def explain(error: ValidationError) -> tuple[str, str]:
        faults = error.errors(include_url=False, include_context=False, include_input=False)
        full = [f"{_path(each['loc'])}: {each['msg']}" for each in faults]
        types_only = [(each["loc"], each["type"] if each["type"] in kinds else "invalid") for each in faults]
        bare = [f"{_path(place, names)}: {kind}" for place, kind in types_only]
        return _joined(full), _joined(bare)

    return adapter.validator.validate_python, ValidationError, explain, not _needs_fields(adapter.core_schema, {})


def _needs_fields(schema: Any, known: Mapping[str, Any]) -> bool:  # noqa: ANN401 - a schema of pydantic
    """Whether bytes and text cannot be valid. Code of the user that runs before the fields are read may take them."""
    match schema["type"]:
        case "model-fields" | "dataclass-args" | "typed-dict" | "tagged-union":
            return True
        case "model" | "dataclass" | "nullable" | "function-after":
            return _needs_fields(schema["schema"], known)
        case "union":
            return all(_needs_fields(each[0] if isinstance(each, tuple) else each, known) for each in schema["choices"])
        case "definitions":
            return _needs_fields(schema["schema"], {each["ref"]: each for each in schema["definitions"]})
        case "definition-ref":
            return schema["schema_ref"] in known and _needs_fields(known[schema["schema_ref"]], {})
    return False


def _names(schema: object) -> Iterator[str]:
    """Yield the names of all fields in a schema of pydantic, and everything else that is called a name."""
    if isinstance(schema, Mapping):
        for key, value in schema.items():
            if key == "fields" and isinstance(value, Mapping):
                yield from value
            elif key in {"name", "validation_alias"} and isinstance(value, str):
                yield value
            yield from _names(value)
    elif isinstance(schema, list | tuple):
        for each in schema:
            if isinstance(each, str):  # a part of an alias that is a path
                yield each
            yield from _names(each)


def _path(place: tuple[int | str, ...], names: frozenset[str] | None = None) -> str:
    """Return a place as in JSONPath. A name that is not among ``names`` is part of the value, and left out."""
    found = (each if names is None or isinstance(each, int) or each in names else "*" for each in place)
    parts = (f"[{each}]" if isinstance(each, int) else f".{each}" for each in found)
    return "$" + "".join(parts)


def _joined(faults: list[str]) -> str:
    more = len(faults) - _FAULTS
    return "; ".join(faults[:_FAULTS]) + (f"; and {more} more" if more > 0 else "")


_PLACE: Final = re.compile(r"(.*) - at `(?:key` in `)?(\$(?:\.[^.`\[\]\s]+|\[\d+\]|\[\.\.\.\])*)`", re.DOTALL)
_OF_THE_TYPE: Final = re.compile(r"Expected `|Object missing required field `")
"""Texts of msgspec that tell of the type and not of the value."""


def _msgspec(of: object, target: str) -> _Conversion:
    import msgspec  # noqa: PLC0415 - the user's class has imported it

    try:
        foreign = sorted(_foreign(msgspec.inspect.type_info(of), set()))
        msgspec.json.Decoder(of)
    except (NameError, TypeError) as error:
        raise _unusable(of, target, error) from error
    if foreign:
        raise _unusable(of, target, TypeError(f"msgspec does not know {', '.join(foreign)}"))

    def explain(error: Exception) -> tuple[str, str]:
        found = _PLACE.fullmatch(str(error))
        text, place = found.groups() if found else (str(error), "$")
        own = error.__cause__ is None and _OF_THE_TYPE.match(text)
        return f"{place}: {text}", f"{place}: {text if own else 'invalid'}"

    # None is a tombstone and not converted. msgspec prepares a union at each call, but a struct only once.
    members = [each for each in _members(of) if each is not types.NoneType]
    wanted = members[0] if len(members) == 1 else of
    return functools.partial(msgspec.convert, type=wanted, str_keys=True), msgspec.ValidationError, explain, False


def _protobuf(of: object, _target: str) -> _Conversion:
    classes: dict[str, Any] = {
        each.DESCRIPTOR.full_name: each  # type: ignore[attr-defined] # classes of messages
        for each in _members(of)
        if each is not types.NoneType
    }
    wanted = " or ".join(classes)

    def convert(decoded: Any) -> Any:  # noqa: ANN401 - a message
        name = decoded.DESCRIPTOR.full_name if hasattr(decoded, "DESCRIPTOR") else type(decoded).__name__
        kind = classes.get(name)
        if kind is None:
            raise ValueError(f"$: is a {name}, not a {wanted}")
        return decoded if isinstance(decoded, kind) else kind.FromString(decoded.SerializeToString())

    return convert, ValueError, lambda error: (str(error), str(error)), False


def _foreign(node: object, seen: set[int]) -> Iterator[str]:
    """Yield the names of the classes in a type that msgspec does not know."""
    if id(node) in seen:
        return
    seen.add(id(node))
    if type(node).__name__ == "CustomType":
        yield _name(node.cls)  # type: ignore[attr-defined] # of msgspec's description of types
    for name in getattr(node, "__struct_fields__", ()):
        value = getattr(node, name)
        for each in value if isinstance(value, tuple) else (value,):
            yield from _foreign(each, seen)


def _unusable(of: object, target: str, error: Exception) -> HandlerLoadError:
    problem = f"takes {_name(of)}, which cannot be used: {str(error).partition(chr(10))[0]}"
    return HandlerLoadError(target, problem, f"correct the type; it has to be {_KINDS}")


def with_values(call: Callable[..., Any], parameter: ValueParameter, *, takes_context: bool) -> Callable[..., Any]:
    """Return a function that converts the record's value before it calls the handler; without a type the handler."""
    if parameter.type is None:
        return call
    of = parameter.type.of
    if parameter.alone and takes_context:

        def with_value(record: Record, context: Context) -> Any:  # noqa: ANN401 - a handler may return an awaitable
            record.value = value = of(record.value)
            return call(value, context)

        return with_value
    if parameter.alone:
        return lambda record: call(of(record.value))

    def with_record(record: Record, *context: Context) -> Any:  # noqa: ANN401 - as before
        record.value = of(record.value)
        return call(record, *context)

    return with_record
