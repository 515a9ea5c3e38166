"""Random expressions of `--where`, with all that engines are known to see differently."""

# ruff: noqa: RUF001 - letters that have another case in other alphabets

from functools import cache

from hypothesis import strategies as st

TEXTS = (
    *(
        "",
        " ",
        "a",
        "A",
        "a ",
        "ab",
        "abc",
        "UA",
        "%",
        "_",
        "\\",
        "a%c",
        "a_c",
        "\\%",
        "'",
        '"',
        "é",
        "É",
        "ß",
        "İ",
        "ı",
    ),
    *(
        "Σ",
        "σ",
        "ς",
        "Привет",
        "日本",
        "🤦🏼‍♂️",
        "e\u0301",
        "null",
        "NULL",
        "true",
        "TRUE",
        "t",
        "yes",
        "false",
        " true",
    ),
    *(
        "0",
        "-0",
        "+5",
        " 5 ",
        "5",
        "05",
        "1e3",
        "1E3",
        "1.0",
        "1.",
        ".5",
        "-1.5",
        "NaN",
        "nan",
        "Infinity",
        "inf",
        "0x10",
    ),
    *("9223372036854775807", "9223372036854775808", "-9223372036854775808", "-9223372036854775809", "1e308", "1e400"),
    *(
        "1e-400",
        "5d",
        "5f",
        "5L",
        "1_000",
        "٣",
        "1,5",
        "2026-11-23",
        "2026-11-23T02:00",
        "2026-11-23 02:00:00.1",
        "2026-02-30",
    ),
    *(
        "2026-11-23T02:00Z",
        "2026-11-23T24:00",
        "1582-10-10",
        "9999-12-31T23:59:59.999",
        "0001-01-01",
        "epoch",
        "today",
        "a\nb",
        "\n",
    ),
)
NUMBERS = (0, 1, -1, 2, 3, 7, 2**31, 2**53 + 1, 2**62, 2**63 - 1)
DOUBLES = ("0.0", "0.5", "1.0", "1.5", "3.0", "1e3", "1e-3", "1e308", "9007199254740993.0", "0.1")
NAMES = ("a", "b", "n", "é", "a b", "a.b", "0", "$", "missing")
JSONS = (
    *(
        '{"a":1}',
        '{"a":"1"}',
        '{"a":1.0}',
        '{"a":1e3}',
        '{"a":1E400}',
        '{"a":-0}',
        '{"a":-0.0}',
        '{"a":null}',
        '{"a":true}',
    ),
    *(
        '{"a":"x\\"y"}',
        '{"a":"\\u00e9"}',
        '{"a":"\\ud83d\\ude00"}',
        '{"a":"\\ud800"}',
        '{"a":"\\u0000"}',
        '{"a":{"b":[1,2]}}',
    ),
    *(
        '{"a":[1,{"n":"x"}]}',
        "[1,2,3]",
        '"a"',
        "1",
        "null",
        "",
        "{",
        '{"a":1} x',
        '{"a":1,}',
        '{"a":NaN}',
        '{"a":1,"a":2}',
    ),
    *(
        '{"a":123456789012345678901234567890}',
        '{"a":0.1}',
        '{"a":1e-7}',
        '{"a":1e21}',
        '{"a":"2026-11-23T02:00"}',
        '{"a.b":1}',
    ),
    *(
        '{"a b":"x"}',
        '{"$":1}',
        ' {"a" : 1 } ',
        '\ufeff{"a":1}',
        '{"a":01}',
        "{'a':1}",
        '{"a":"true"}',
        '{"0":1}',
        '{"é":"É"}',
    ),
)
ORIGINS = ("orders", "payments", "Orders", "")
NOW_MS = 1_795_000_000_123

_STEPS = st.one_of(
    st.sampled_from(["a", "b", "n", "missing"]).map(".{}".format),
    st.sampled_from(NAMES).map('."{}"'.format),
    st.sampled_from(NAMES).map("['{}']".format),
    st.integers(0, 3).map("[{}]".format),
)
PATHS = st.lists(_STEPS, max_size=3).map(lambda steps: "$" + "".join(steps))
_PATTERNS = st.lists(st.sampled_from(["%", "_", "a", "A", "b", "\\", "é", " ", "1", "!%", "!_", "!!"]), max_size=4).map(
    "".join
)
_INTERVALS = st.tuples(st.sampled_from(["0", "1", "2.5", "999"]), st.sampled_from(["seconds", "hour", "days", "weeks"]))


def quoted(text: str) -> str:
    """Return a text as SQL writes it."""
    return "'" + text.replace("'", "''") + "'"


_LITERALS = st.sampled_from([each for each in TEXTS if each.isprintable() or each == "\n"]).map(quoted)


def _binary(operators: list[str], operand: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.tuples(operand, st.sampled_from(operators), operand).map(lambda each: "({} {} {})".format(*each))


def _call(shape: str, *operands: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.tuples(*operands).map(lambda each: shape.format(*each))


@cache
def texts(depth: int) -> st.SearchStrategy[str]:
    """Expressions that are texts."""
    columns = [
        "id",
        "topic",
        "origin",
        "source_id",
        "reason",
        "exception",
        "message",
        "fingerprint",
        "key",
        "value",
        '"group"',
    ]
    simple = st.one_of(
        st.sampled_from(columns), _LITERALS, st.sampled_from(["h", "n", "x y", "missing"]).map("headers['{}']".format)
    )
    if not depth:
        return simple
    less = texts(depth - 1)
    return st.one_of(
        simple,
        _call("value ->> {}", PATHS.map(quoted)),
        _call("({} ->> {})", less, PATHS.map(quoted)),
        _call("lower({})", less),
        _call("upper({})", less),
        _call("({} || {})", less, less),
        _call("coalesce({}, {})", less, less),
        _call("cast({} as text)", integers(depth - 1)),
    )


@cache
def integers(depth: int) -> st.SearchStrategy[str]:
    """Expressions that are integers."""
    simple = st.one_of(
        st.sampled_from(["partition", "offset", "attempts", "size"]), st.sampled_from(NUMBERS).map("({})".format)
    )
    if not depth:
        return simple
    less = integers(depth - 1)
    return st.one_of(
        simple,
        _binary(["+", "-", "*"], less),
        _call("(-{})", less),
        _call("length({})", texts(depth - 1)),
        _call("cast({} as integer)", texts(depth - 1)),
        _call("coalesce({}, {})", less, less),
    )


@cache
def doubles(depth: int) -> st.SearchStrategy[str]:
    """Expressions that are numbers, at least one operand a double."""
    simple = st.sampled_from(DOUBLES)
    if not depth:
        return simple
    less = st.one_of(doubles(depth - 1), integers(depth - 1))
    return st.one_of(
        simple,
        _binary(["/"], less),
        _call("({} {} {})", doubles(depth - 1), st.sampled_from(["+", "-", "*"]), less),
        _call("cast({} as double)", st.one_of(texts(depth - 1), integers(depth - 1))),
        _call("coalesce({}, {})", doubles(depth - 1), less),
    )


@cache
def times(depth: int) -> st.SearchStrategy[str]:
    """Expressions that are timestamps."""
    simple = st.sampled_from(
        ["died", "expires", "now()", "timestamp '2026-11-23T02:00+01:00'", "timestamp '1969-12-31'"]
    )
    if not depth:
        return simple
    return st.one_of(
        simple,
        _call("({} {} {})", times(depth - 1), st.sampled_from("+-"), intervals(depth - 1)),
        _call("cast({} as timestamp)", texts(depth - 1).filter(lambda text: not text.startswith("'"))),
    )


@cache
def intervals(depth: int) -> st.SearchStrategy[str]:
    """Expressions that are lengths of time."""
    simple = _INTERVALS.map(lambda each: "interval '{} {}'".format(*each))
    if not depth:
        return simple
    return st.one_of(
        simple,
        _binary(["-"], times(depth - 1)),
        _binary(["+", "-"], intervals(depth - 1)),
        _call("({} * {})", intervals(depth - 1), integers(depth - 1)),
    )


@cache
def conditions(depth: int) -> st.SearchStrategy[str]:
    """Expressions that are conditions."""
    compared, less = ["=", "<>", "<", "<=", ">", ">="], max(0, depth - 1)
    typed = [texts(less), integers(less), doubles(less), times(less), intervals(less)]
    simple = st.one_of(
        *(_binary(compared, each) for each in typed),
        _binary(compared, st.one_of(integers(less), doubles(less))),
        *(_call("({} between {} and {})", each, each, each) for each in typed),
        *(_call("({} is {}null)", each, st.sampled_from(["", "not "])) for each in typed[:3]),
        _call(
            "({} {}{} {} escape '!')",
            texts(less),
            st.sampled_from(["", "not "]),
            st.sampled_from(["like", "ilike"]),
            _PATTERNS.map(quoted),
        ),
        _call("({} in ({}))", texts(less), st.lists(_LITERALS, min_size=1, max_size=4).map(", ".join)),
        _call(
            "({} not in ({}))",
            integers(less),
            st.lists(st.sampled_from(NUMBERS).map(str), min_size=1, max_size=4).map(", ".join),
        ),
        _call("{}({}, {})", st.sampled_from(["starts_with", "contains"]), texts(less), texts(less)),
        _call("cast({} as boolean)", texts(less)),
        st.sampled_from(["true", "false"]),
    )
    if depth < 2:
        return simple
    deeper = conditions(depth - 1)
    return st.one_of(
        simple,
        _binary(["and", "or", "=", "<>"], deeper),
        _call("(not {})", deeper),
        _call("coalesce({}, {})", deeper, deeper),
    )
