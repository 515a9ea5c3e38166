"""What may be written in YAML, and what is refused."""

import pytest

from topology.document import MOST_VALUES, read_document


def places(text: str, environment: dict[str, str] | None = None) -> list[tuple[str, str]]:
    """Place and problem of each fault."""
    return [(fault.place, fault.problem) for fault in read_document(text, "f", environment or {}).faults]


@pytest.mark.parametrize(
    ("text", "place", "problem"),
    [
        ("a: [\nb: c", "f:2:5", "is not valid YAML"),
        ("a: b: c", "f:1:5", "is not valid YAML"),
        ("a:\n\t- b", "f:2:1", "is not valid YAML"),
        ("a: 'x", "f:1:6", "is not valid YAML"),
        ("a: *nobody", "f:1:4", "is not valid YAML"),
        ("a: 1\n---\nb: 2", "f:2:1", "a second document starts here"),
        ("a: &a [*a]", "f:1:4", "an alias refers to what it is part of"),
        ("a: \x01", "f", "holds characters that YAML does not allow"),
        ("[" * 5000, "f", "is nested too deeply"),
        ("x" * 1_000_001, "f", "has 1000001 characters"),
    ],
)
def test_unreadable_documents(text: str, place: str, problem: str) -> None:
    """A document that cannot be read is one fault at its place."""
    read = read_document(text, "f", {})
    assert [(fault.place, problem in fault.problem) for fault in read.faults] == [(place, True)]
    assert not read.readable


def test_an_alias_bomb_is_refused() -> None:
    """Nested aliases cannot make a small file large."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 9)]
    (fault,) = read_document("\n".join(lines), "f", {}).faults
    assert f"more than {MOST_VALUES} values" in fault.problem


def test_a_name_twice_is_told_with_both_lines() -> None:
    """The second of two equal names is the fault; the first is named."""
    assert places("a: 1\nb:\n  c: 2\n  c: 3\n") == [("f:4:3 b.c", "is here a second time (first in line 3)")]


@pytest.mark.parametrize("text", ["? [a]\n: 1", "{a: 1}: 2", "'': 1"])
def test_names_must_be_text(text: str) -> None:
    """A list, a mapping or nothing is no name."""
    assert [problem for _, problem in places(text)] == ["has a name that is no text"]


@pytest.mark.parametrize("text", ["a: !!python/object/apply:os.system [x]", "a: !!binary aGVsbG8=", "a: !mine x"])
def test_no_tag_makes_an_object(text: str) -> None:
    """What a tag would construct is never constructed."""
    read = read_document(text, "f", {})
    assert read.data in ({"a": None}, {"a": ["x"]})


def test_a_date_stays_text() -> None:
    """Nothing in the file is a date."""
    assert read_document("a: 2024-02-31", "f", {}).data == {"a": "2024-02-31"}


def test_merge_keys_take_over_what_is_not_given() -> None:
    """``<<`` shares a policy, and what stands beside it wins."""
    text = "a: &a {x: 1, y: 2}\nb:\n  <<: *a\n  y: 3\nc: {<<: [*a, {z: 4}]}\n"
    assert read_document(text, "f", {}).data == {
        "a": {"x": 1, "y": 2},
        "b": {"x": 1, "y": 3},
        "c": {"x": 1, "y": 2, "z": 4},
    }


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("${HOST}:9092", "kafka:9092"),
        ("${HOST:other}", "kafka"),
        ("'${NONE:default}'", "default"),
        ("'${NONE:}'", ""),
        ("${NONE:}", None),
        ("'${NONE:a:b}'", "a:b"),
        ("$${HOST}", "${HOST}"),
        ("a$b{group}", "a$b{group}"),
        ("${HOST}${HOST}", "kafkakafka"),
        ("${EMPTY}", None),
    ],
)
def test_placeholders(text: str, value: str | None) -> None:
    """``${VAR}`` and ``${VAR:default}`` come from the environment; nothing else is touched."""
    read = read_document(f"a: {text}", "f", {"HOST": "kafka", "EMPTY": ""})
    assert not read.faults
    assert read.data == {"a": value}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("${NONE}", "needs the environment variable NONE, which is not set"),
        ("${}", "has '${' without a variable's name and '}'"),
        ("${my-name}", "has '${' without a variable's name and '}'"),
        ("'${OPEN'", "has '${' without a variable's name and '}'"),
    ],
)
def test_placeholders_that_cannot_be_filled(text: str, problem: str) -> None:
    """A missing variable is a fault that names it."""
    assert places(f"b: 1\na: {text}") == [("f:2:4 a", problem)]


def test_a_value_from_the_environment_is_not_yaml() -> None:
    """A password that looks like YAML stays what it is."""
    assert read_document("a: ${P}", "f", {"P": "0123: [x] #no"}).data == {"a": "0123: [x] #no"}
