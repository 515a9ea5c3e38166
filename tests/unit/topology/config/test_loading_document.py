"""Reading YAML documents: faults, placeholders, merge keys and limits."""

import pytest

from kafka_redelivery.topology.config.document import MAX_VALUES, read_document
from kafka_redelivery.topology.config.loading import load_settings


def faults(text: str, environment: dict[str, str] | None = None) -> list[tuple[str, str]]:
    """Location and problem of each fault."""
    return [(fault.location, fault.problem) for fault in read_document(text, "f", environment or {}).faults]


@pytest.mark.parametrize(
    ("text", "location", "problem"),
    [
        ("a: [\nb: c", "f:2:5", "is not valid YAML"),
        ("a: b: c", "f:1:5", "is not valid YAML"),
        ("a:\n\t- b", "f:2:1", "is not valid YAML"),
        ("a: 'x", "f:1:6", "is not valid YAML"),
        ("a: *unknown", "f:1:4", "is not valid YAML"),
        ("a: 1\n---\nb: 2", "f:2:1", "a second document starts here"),
        ("a: &a [*a]", "f:1:4", "the alias refers to a value that contains it"),
        ("a: \x01", "f", "contains characters that YAML does not allow"),
        ("[" * 1000, "f", "is nested too deeply"),
        ("x" * 1_000_001, "f", "has 1000001 characters"),
    ],
)
def test_unreadable_documents(text: str, location: str, problem: str) -> None:
    """A document that cannot be read has one fault."""
    read = read_document(text, "f", {})
    assert [(fault.location, problem in fault.problem) for fault in read.faults] == [(location, True)]
    assert not read.readable


@pytest.mark.parametrize("text", ["a: *s3cret", "a: !s3cret x", "a: !b!s3cret x", "%YAML s3cret", "a: |s3cret"])
def test_no_fault_quotes_a_value(text: str) -> None:
    """It may be a password that needs quotes."""
    [(_, problem)] = faults(text)
    assert "s3c" not in problem
    assert "'s'" not in problem


def test_an_alias_bomb_is_refused() -> None:
    """The number of values that aliases expand to is limited."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 9)]
    (fault,) = read_document("\n".join(lines), "f", {}).faults
    assert f"more than {MAX_VALUES} values" in fault.problem


def test_a_repeated_name() -> None:
    """The fault is at the second one and has the line of the first one."""
    assert faults("a: 1\nb:\n  c: 2\n  c: 3\n") == [("f:4:3 b.c", "is written twice, first on line 3")]


@pytest.mark.parametrize("text", ["? [a]\n: 1", "{a: 1}: 2", "'': 1"])
def test_names_must_be_text(text: str) -> None:
    """A list, a mapping or an empty text is not a name."""
    assert [problem for _, problem in faults(text)] == ["has a name that is not text"]


@pytest.mark.parametrize("text", ["a: !!python/object/apply:os.system [x]", "a: !!binary aGVsbG8=", "a: !mine x"])
def test_tags_construct_no_objects(text: str) -> None:
    """Values with an unknown tag are left out."""
    read = read_document(text, "f", {})
    assert read.data in ({"a": None}, {"a": ["x"]})


@pytest.mark.parametrize("value", ['!!int ""', '!!float ""', "!!int '-'", "!!int x"])
def test_a_value_that_does_not_match_its_tag(value: str) -> None:
    """It is a fault of the document, also if the YAML library does not expect it."""
    assert [problem for _, problem in faults(f"a: {value}")] == [
        f"has a value that does not match its tag {value.partition(' ')[0]}"
    ]


@pytest.mark.parametrize(
    "number", ["9" * 6000, "0x" + "f" * 6000, "0b" + "1" * 6000, "1" + ":59" * 6000, "-1." + "0" * 6000]
)
def test_a_number_of_thousands_of_digits(number: str) -> None:
    """Python refuses to print it, and no setting is so large."""
    assert faults(f"a: {number}") == [("f:1:4 a", "is a number of more than 100 characters")]


def test_a_date_remains_text() -> None:
    """No setting is a date."""
    assert read_document("a: 2024-02-31", "f", {}).data == {"a": "2024-02-31"}


def test_merge_keys() -> None:
    """``<<`` adds the values of another mapping; the mapping's own values take precedence."""
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
    """``${VAR}`` and ``${VAR:default}`` are replaced from the environment; other text is unchanged."""
    read = read_document(f"a: {text}", "f", {"HOST": "kafka", "EMPTY": ""})
    assert not read.faults
    assert read.data == {"a": value}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("${NONE}", "needs the environment variable NONE, which is not set"),
        ("${}", "contains '${' without a variable name and '}'"),
        ("${my-name}", "contains '${' without a variable name and '}'"),
        ("'${OPEN'", "contains '${' without a variable name and '}'"),
    ],
)
def test_placeholders_without_a_value(text: str, problem: str) -> None:
    """An unset variable or a malformed placeholder is a fault."""
    assert faults(f"b: 1\na: {text}") == [("f:2:4 a", problem)]


def test_a_value_of_the_environment_is_not_parsed_as_yaml() -> None:
    """A password that looks like YAML is unchanged."""
    assert read_document("a: ${P}", "f", {"P": "0123: [x] #no"}).data == {"a": "0123: [x] #no"}


@pytest.mark.parametrize("written", ["0123456", "1_000", "0x1F", "12:30", "yes", "True", "1e3", "5", "0.50"])
def test_a_setting_of_a_client_is_the_text_that_was_written(written: str) -> None:
    """YAML's numbers and words for true are passwords here; the library itself parses what it takes for a number."""
    text = f"""\
group: g
kafka: {{bootstrap.servers: k, sasl.password: {written}}}
sources: [{{topic: t, value: {{format: avro, registry: {{url: u, basic.auth.user.info: {written}}}}}}}]
pipeline: {{checkpoint: c, spark: {{spark.redis.auth: {written}}}}}
"""
    settings = load_settings(text)
    assert settings.kafka["sasl.password"] == written
    assert settings.sources[0].value.registry["basic.auth.user.info"] == written
    assert settings.pipeline is not None
    assert settings.pipeline.spark == {"spark.redis.auth": written}
