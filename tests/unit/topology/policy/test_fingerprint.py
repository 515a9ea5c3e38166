"""The fingerprint of a failure: what varies is no part of it, what tells causes apart is."""

import random
import re
import string
from datetime import UTC, datetime

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kafka_redelivery.topology.policy.fingerprint import kind_of, normalise

_CODES = re.compile(
    r"(?i)(?:https?(?:/\d(?:\.\d)?)?|status|response)\D{0,20}[1-5]\d\d|[1-5]\d\d(?:, message=| client error)"
)
_WORDS = st.text(string.ascii_letters + " ", min_size=1)
_KINDS = (
    st.integers(min_value=0).map(str),
    st.floats(min_value=0, allow_infinity=False, allow_nan=False).map("{:.3f}".format),
    st.uuids().map(str),
    st.datetimes(timezones=st.just(UTC)).map(datetime.isoformat),
    # With a digit and a letter: otherwise it is a number, or a word that may be anything.
    st.binary(min_size=8, max_size=20)
    .map(bytes.hex)
    .filter(lambda text: any(map(str.isdigit, text)) and not text.isdigit()),
    st.text(string.ascii_letters + string.digits + " ").map(repr),
    st.text(string.ascii_letters + string.digits + " ").map('"{}"'.format),
)


@pytest.mark.parametrize(
    ("message", "normal"),
    [
        ("no plane N515MQ", "no plane <id>"),
        ("line 12, column 7", "line <number>, column <number>"),
        ("took 1,250.5 ms", "took <number> ms"),
        ("branch -7 of 2-3", "branch <number> of <number>-<number>"),
        ("order 6f1c8a52-0b0e-4a39-93f1-cc2b8f2f6d11 is gone", "order <uuid> is gone"),
        ("at 2026-03-01T12:00:00.123Z and 2026-03-01", "at <time> and <time>"),
        ("at 2026-03-01 12:00:00,123 +02:00", "at <time>"),
        ("after 12:00:01", "after <time>"),
        ("<Order object at 0x7f3a2c1b>", "<Order object at <id>>"),
        ("commit deadbeef1", "commit <id>"),
        ("column 'a b' and \"c\"", "column <text> and <text>"),
        ("it can't be, isn't it", "it can't be, isn't it"),
        ('cut off at "the mid', "cut off at <text>"),
        ("two\n  lines\t", "two lines"),
        ("", ""),
    ],
)
def test_variable_parts_become_placeholders(message: str, normal: str) -> None:
    """Each kind of variable part has its placeholder; other words stay."""
    assert normalise(message) == normal


_PAIR = st.sampled_from(_KINDS).flatmap(lambda kind: st.tuples(kind, kind))


@given(_WORDS, _PAIR, _WORDS)
def test_the_variable_part_does_not_change_the_fingerprint(before: str, pair: tuple[str, str], after: str) -> None:
    """Messages that differ only in a variable part have the same fingerprint."""
    messages = [f"{before} {part} {after}" for part in pair]

    for place in ("shop.charge", "", None):
        one, other = (kind_of("E", message, place) for message in messages)
        assert one == other


@given(st.text())
@example("''0")
def test_a_normal_form_has_no_variable_part(message: str) -> None:
    """The normal form of any text has no digit, apart from codes, and no line break."""
    normal = normalise(message)

    assert not re.search(r"\d|\n", _CODES.sub("", normal))
    assert not re.search(r"\d|\n", kind_of("E", message, None)[0])


def test_unbalanced_quotes_do_not_merge_failures() -> None:
    """A lone quote does not hide the text after the next quoted part."""
    assert normalise("unexpected ' in 'x': missing column") == "unexpected ' in <text>: missing column"


@given(st.text(), st.text())
def test_the_class_is_part_of_the_fingerprint(one: str, other: str) -> None:
    """Failures of different classes have different fingerprints."""
    for place in ("", None):
        prints = [kind_of(each, "no card", place)[1] for each in (one, other)]
        assert (prints[0] == prints[1]) == (one.encode(errors="replace") == other.encode(errors="replace"))


def test_fingerprints_are_stable() -> None:
    """Archives contain fingerprints, so the same failure must always have the same one, also one of an old letter."""
    assert kind_of("UnknownPlaneError", "no plane N515MQ", "planes.find")[1] == "45f75928ac63d826"
    assert kind_of("UnknownPlaneError", "no plane N515MQ", None)[1] == "ce9a881322cafbcb"


@pytest.mark.parametrize(
    ("exception", "one", "other"),
    [
        ("KeyError", "'amount'", "'iban'"),
        ("AttributeError", "'NoneType' object has no attribute 'iban'", "'NoneType' object has no attribute 'bic'"),
        ("AttributeError", "'Order' object has no attribute 'iban'", "'Customer' object has no attribute 'iban'"),
        ("AttributeError", "module 'shop' has no attribute 'a'", "module 'shop' has no attribute 'b'"),
        ("NameError", "name 'total' is not defined", "name 'tax' is not defined"),
        (
            "UnboundLocalError",
            "cannot access local variable 'a' where it is not associated with a value",
            "cannot access local variable 'b' where it is not associated with a value",
        ),
        ("ModuleNotFoundError", "No module named 'shop.tax'", "No module named 'shop.bank'"),
        ("TypeError", "f() got an unexpected keyword argument 'a'", "f() got an unexpected keyword argument 'b'"),
        ("BankError", "HTTP 401", "HTTP 404"),
        ("BankError", "HTTP/1.1 500", "HTTP/1.1 503"),
        ("HTTPError", "HTTP Error 404: Not Found", "HTTP Error 410: Not Found"),
        ("HTTPError", "404 Client Error: for url: http://bank", "401 Client Error: for url: http://bank"),
        ("HTTPStatusError", "Server error '500 Oh' for url 'http://b/1'", "Server error '503 Oh' for url 'http://b/2'"),
        ("ClientResponseError", "404, message='No', url='http://b/1'", "401, message='No', url='http://b/2'"),
        ("BankError", "bank answered with status 500", "bank answered with status 503"),
        ("BankError", "status_code=500 of order 17", "status_code=503 of order 18"),
        ("BankError", '{"status": 500, "id": 17}', '{"status": 503, "id": 18}'),
        ("BankError", "<Response [500]>", "<Response [503]>"),
    ],
)
def test_what_tells_causes_apart_stays(exception: str, one: str, other: str) -> None:
    """Identifiers where Python itself writes them, and codes beside a word that says so."""
    assert kind_of(exception, one, "shop.charge")[1] != kind_of(exception, other, "shop.charge")[1]


@pytest.mark.parametrize(
    ("exception", "one", "other"),
    [
        ("KeyError", "'c4711'", "'c4712'"),
        ("KeyError", "4711", "4712"),
        ("KeyError", "('orders', 17)", "('orders', 18)"),
        ("ValueError", "no customer 'Anna'", "no customer 'Bert'"),
        ("BankError", "order 404 failed", "order 500 failed"),
        ("BankError", "status 4040", "status 5000"),
        ("BankError", "HTTP 404 for order 482", "HTTP 404 for order 483"),
    ],
)
def test_what_varies_does_not(exception: str, one: str, other: str) -> None:
    """Ids, customers, and numbers of three digits."""
    assert kind_of(exception, one, "shop.charge")[1] == kind_of(exception, other, "shop.charge")[1]


def test_ten_thousand_messages_have_the_fingerprints_of_their_causes() -> None:
    """With random customers, ids and numbers of three digits there are as many as there are causes."""
    draw = random.Random(50)  # noqa: S311 - not for security
    causes = (
        ("KeyError", "'amount'", "shop.parse"),
        ("KeyError", "'iban'", "shop.parse"),
        ("KeyError", "'{id}'", "shop.find"),
        ("AttributeError", "'NoneType' object has no attribute 'iban'", "shop.charge"),
        ("BankError", "HTTP 401 for customer '{customer}', order {id}", "shop.charge"),
        ("BankError", "HTTP 404 for customer '{customer}', order {id}", "shop.charge"),
        ("BankError", "HTTP 404 for customer '{customer}', order {id}", "shop.refund"),
        ("BankError", "order {number} of {id} took {number} ms, status 503", "shop.charge"),
        ("ValueError", "customer {customer!r} has no card {number} in {id}", "shop.charge"),
    )
    found = set()
    for number in range(10_000):
        exception, text, place = causes[number % len(causes)]
        customer = "".join(draw.choices(string.ascii_letters + " ", k=draw.randint(3, 12)))
        name = f"{draw.choice('abcdef')}{draw.getrandbits(48):012x}{draw.randint(0, 9)}"
        message = text.format(customer=customer, id=name, number=draw.randint(100, 999))
        found.add(kind_of(exception, message, place)[1])
    assert len(found) == len(causes)


def test_the_place_in_the_code_is_part_of_the_cause() -> None:
    """Two functions that raise the same are two causes; letters of earlier versions name no place."""
    assert len({kind_of("E", "no card", place)[1] for place in ("shop.charge", "shop.refund", "", None)}) == 4
