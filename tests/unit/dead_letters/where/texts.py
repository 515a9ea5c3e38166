"""Texts that are no expressions, or nearly none: random bytes, mutations, attacks."""

# ruff: noqa: RUF001, S311 - look-alikes are attacks, and no secret is drawn

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Final

VALID: Final = (
    "value ->> '$.carrier' = 'UA' and attempts >= 3",
    "died > now() - interval '2 hours' or expires - died <= interval '1.5 days'",
    "reason not in ('expired', 'rejected') and exception like 'Connection!_%' escape '!'",
    "cast(value ->> '$.lines[0].price' as double) / 2 + 1.5 between 1 and 1e3",
    "headers['traceparent'] is not null and not (key is null or starts_with(lower(key), 'a'))",
    "coalesce(message, '') || 'x' <> upper(origin) and length(\"group\") * -2 < 9223372036854775807",
    "died between timestamp '2026-11-23' and timestamp '2026-11-23T02:00:00.123+01:00'",
    "try_cast(headers['n'] as integer) in (1, 2, -3) or contains(value, 'é') = true",
    "value::integer = 3 and offset - 1 >= 0 and partition = 1 and state = 'waiting' and sends = 0 and job is null",
    "cast(value ->> '$.vip' as boolean) or cast(headers['at'] as timestamp) < now() or cast(size as text) like '9%'",
)
ATTACKS: Final = (
    *(
        "read_csv('/etc/passwd')",
        "read_text('/etc/passwd') = 'x'",
        "getenv('HOME') = 'x'",
        "pragma version",
        "1; drop table letters",
    ),
    *(
        "1 = 1; copy letters to '/tmp/x'",
        "attach '/tmp/x'",
        "install httpfs",
        "load httpfs",
        "set enable_external_access = true",
    ),
    *(
        "(select 1) = 1",
        "exists (select 1 from letters)",
        "attempts in (select 1)",
        "attempts = any(select 1)",
        "1 = 1 union select 1",
    ),
    *(
        "key = 'a' -- b",
        "key = /* a */ 'b'",
        "key = 'a'/*",
        "--",
        "/*",
        "*/",
        "key = $$a$$",
        "key = $1",
        "key = ?",
        "key = :a",
        "key = @a",
    ),
    *(
        "count(*) > 1",
        "row_number() over () = 1",
        "sum(attempts) over (partition by key) > 1",
        "list_transform([1], x -> x)[1] = 1",
    ),
    *(
        "key = e'\\x41'",
        "key = x'41'",
        "key = U&'\\0041'",
        "key = N'a'",
        "key = r'a'",
        "key = b'a'",
        "key = `a`",
        "[1,2][1] = 1",
        "{'a': 1}",
    ),
    *(
        "letters.key = 'a'",
        "main.letters.key = 'a'",
        "information_schema.tables",
        "columns('k.*') = 'a'",
        "* = 1",
        "duckdb_settings()",
    ),
    *(
        "system('id')",
        "java_method('java.lang.Runtime', 'getRuntime') = 'x'",
        "reflect('a', 'b') = 'c'",
        "input_file_name() = 'x'",
    ),
    *(
        "case when 1 = 1 then true end",
        "if(true, true, false)",
        "try(1 = 1)",
        "error('x') = 'x'",
        "glob('*') = 'x'",
        "key ~ 'a'",
        "key glob 'a'",
    ),
    *(
        "кey = 'a'",
        "key ＝ 'a'",
        "key = ‘a’",
        "key = 'a' ＯＲ 1 = 1",
        "ｋｅｙ = 'a'",
        "key\u200b = 'a'",
        "key = 'a\u0000b'",
        "key = 'a' \u2028 or true",
    ),
    *(
        "key = 'a' or 'a' = 'a",
        "'' or 1 = 1 --",
        "'; --",
        '"key" = "a"',
        '"k""ey" = \'a\'',
        '"id""; drop table letters" = \'x\'',
        "headers['a'']",
    ),
    *(
        "value ->> '$.a' ->> '$..b' = 'c'",
        "value ->> '/a' = 'x'",
        "value -> '$.a' = 'x'",
        "value ->> '$.*' = 'x'",
        "value ->> '$[#-1]' = 'x'",
    ),
    *(
        "1e999 = 1",
        "0x1F = 1",
        "1_000 = 1",
        "9223372036854775808 = 1",
        ".e1 = 1",
        "1.2.3 = 1",
        "'a' 'b' = 'ab'",
        "key = 'a' collate nocase",
    ),
    *(
        "interval '1' year > died - died",
        "interval 'x hours' = interval '1 day'",
        "timestamp 'now' = died",
        "date '2026-01-01' < died",
    ),
    *(
        "(" * 500,
        ")" * 500,
        "[" * 500,
        "not " * 500 + "true",
        "-" * 2000 + "1",
        "+" * 2000 + "1",
        "(" * 200 + "1 = 1" + ")" * 200,
        "a." * 1000,
    ),
    *("coalesce(" * 300, "cast(" * 300 + "1", "1 + " * 590 + "1 = 1", "key['a']" * 300, "value" + " ->> '$'" * 300),
    *("interval " * 300, "timestamp " * 300, "key is null" + " is null" * 280, "a between " * 300, "case " * 300),
    *("{%", "{{ a }}", "key like 'a' escape ''", "\\", "#", "$"),
)
LARGE: Final = (
    "true" + " and true" * 299,
    "true" + " or true" * 299,
    "key in (" + "'a', " * 280 + "'b')",
    "key" + "::text" * 60 + " = 'a'",
    "key || " * 290 + "key = 'a'",
    "(" * 15 + "1 = 1" + ")" * 15,
    "not " * 16 + "true",
)
"""Valid, and at the limits."""

_CHARS: Final = "()[]{},.;:'\"`+-*/%=<>!|&^~?@#$\\ \t\n_0123456789eExXabcAZéΣ日🤦\u0301\u200b\ufeff\u0000\x1b\ud800"
_WORDS: Final = (
    *("and", "or", "not", "is", "null", "in", "between", "like", "ilike", "escape", "true", "false", "interval"),
    *(
        "timestamp",
        "cast",
        "try_cast",
        "as",
        "text",
        "integer",
        "double",
        "boolean",
        "select",
        "from",
        "where",
        "union",
    ),
    *("case", "when", "then", "else", "end", "with", "over", "partition", "by", "group", "order", "limit", "now"),
    *("lower", "upper", "length", "coalesce", "starts_with", "contains", "id", "topic", "offset", "died", "origin"),
    *("attempts", "key", "headers", "value", "size", "state", "job", "sends", "'a'", "''", "'$.a'", "'$'", "'2 hours'"),
    *("'1'", "1", "2.5", "1e3", ".", "(", ")", "[", "]", ",", "=", "<>", "!=", "<=", ">=", "<", ">", "||", "->>", "->"),
    *("::", "+", "-", "*", "/", ";", "--", "/*", "*/", "?", "$1", '"key"', "distinct"),
)


def texts(seed: int, number: int) -> Iterator[str]:
    """Yield texts: all attacks, and others of each sort."""
    yield from ATTACKS
    draw = random.Random(seed)
    sorts = (_bytes, _chars, _words, _mutated, _mutated, _attacked, _combined)
    for _ in range(number - len(ATTACKS)):
        yield draw.choice(sorts)(draw)


def _bytes(draw: random.Random) -> str:
    return draw.randbytes(draw.randrange(64)).decode(errors=draw.choice(["replace", "surrogateescape", "ignore"]))


def _chars(draw: random.Random) -> str:
    return "".join(draw.choices(_CHARS, k=draw.randrange(48)))


def _words(draw: random.Random) -> str:
    return " ".join(draw.choices(_WORDS, k=draw.randrange(24)))


def _mutated(draw: random.Random) -> str:
    text = draw.choice(VALID)
    for _ in range(draw.randrange(1, 5)):
        at, end = sorted(draw.randrange(len(text) + 1) for _ in range(2))
        change = draw.randrange(5)
        if change == 0:
            text = text[:at] + text[end:]
        elif change == 1:
            text = text[:at] + draw.choice(_CHARS) + text[at:]
        elif change == 2:
            text = text[:at] + " " + draw.choice(_WORDS) + " " + text[at:]
        elif change == 3:
            text = text[:end] + text[at:end][:100] + text[end:]
        else:
            other = draw.choice(VALID)
            text = text[:at] + other[draw.randrange(len(other)) :]
    return text


def _attacked(draw: random.Random) -> str:
    text, attack = draw.choice(VALID), draw.choice(ATTACKS)[:200]
    at = draw.randrange(len(text) + 1)
    return text[:at] + draw.choice(["", " ", " and ", "("]) + attack + text[at:]


def _combined(draw: random.Random) -> str:
    parts = [f"({draw.choice(VALID)})" for _ in range(draw.randrange(1, 6))]
    for at, part in enumerate(parts):
        if draw.random() < 0.3:
            parts[at] = f"not {part}"
    return draw.choice([" and ", " or ", " = ", "\nOR\t"]).join(parts)
