"""What a source depends on has a name in the section ``dependencies``, and contradicts no other setting."""

from datetime import timedelta

import pytest

from kafka_redelivery.topology.cluster.plan import plan
from kafka_redelivery.topology.config.loading import load_settings
from kafka_redelivery.topology.faults import ConfigurationError

_HEAD = 'group: billing\nkafka: {bootstrap.servers: "x:1"}\n'


def _text(dependencies: str, handler: str = "", needs: str = "bank") -> str:
    handler = f'handler: {{callable: "shop:charge"{handler}}}\n'
    return f"{_HEAD}sources: [{{topic: orders, dependencies: [{needs}]}}]\n{handler}dependencies: {{{dependencies}}}\n"


def test_a_source_declares_what_it_depends_on() -> None:
    """Each setting has a default, and a source without dependencies has none."""
    settings = load_settings(_text("bank: {}, books: {}"))
    [(name, bank)] = settings.handlers["orders"].dependencies
    assert (name, bank.max_outage, bank.threshold, bank.probe, bank.unavailable) == ("bank", None, None, None, ())
    assert (bank.first_pause, bank.longest_pause) == (timedelta(seconds=5), timedelta(seconds=60))
    assert load_settings(_text("bank: {}", needs="")).handlers["orders"].dependencies == ()


def test_it_makes_a_handler_of_its_own() -> None:
    """Sources that depend on other things wait at other times, so they share no slots."""
    sources = "sources: [{topic: a, dependencies: [bank]}, {topic: b}, {topic: c, dependencies: [bank]}]\n"
    settings = load_settings(f'{_HEAD}{sources}handler: {{callable: "shop:charge"}}\ndependencies: {{bank: {{}}}}\n')
    assert settings.handlers["a"] == settings.handlers["c"] != settings.handlers["b"]


@pytest.mark.parametrize(
    ("text", "location", "problem"),
    [
        (
            _text("bank: {}", needs="bonk"),
            "sources.0.dependencies.0",
            "is 'bonk', but the section dependencies has bank",
        ),
        (_text("", needs="bank"), "sources.0.dependencies.0", "is 'bank', but the section dependencies has nothing"),
        (_text('"the bank": {}', needs=""), "dependencies.the bank", "has the name 'the bank'"),
        (_text("bank: {firstPause: 0s}"), "dependencies.bank.firstPause", "is zero, or longer than longestPause"),
        (_text("bank: {firstPause: 2m}"), "dependencies.bank.firstPause", "is zero, or longer than longestPause"),
        (
            _text("bank: {maxOutage: 0s}"),
            "dependencies.bank.maxOutage",
            "is zero: the redelivery policy would decide about each failure",
        ),
        (
            _text("bank: {deadline: true}"),
            "dependencies.bank.deadline",
            "is true, but the handler of orders has no deadline",
        ),
        (
            _text("bank: {deadline: true}, books: {deadline: true}", ", deadline: 5s", "bank, books"),
            "dependencies.books.deadline",
            "is true, and also for bank: which of them is away is unknown",
        ),
        (
            _text('bank: {unavailable: ["bank:Down"]}', ', notRetryable: ["bank:Down", "bank:Wrong"]'),
            "handler.notRetryable",
            "lists bank:Down, and so does unavailable of the dependency bank",
        ),
        (
            _text("bank: {}", ", vectorized: true"),
            "handler.vectorized",
            "is true, and a vectorized handler cannot say which record met an outage",
        ),
        (_text("bank: {threshold: half of 100}"), "dependencies.bank.threshold", ""),
        (_text("bank: {threshold: 0% of 100}"), "dependencies.bank.threshold", ""),
        (_text("bank: {probe: bank_answers}"), "dependencies.bank.probe", ""),
    ],
)
def test_a_fault_names_its_place_and_a_fix(text: str, location: str, problem: str) -> None:
    """One for each place."""
    with pytest.raises(ConfigurationError) as refused:
        load_settings(text)
    [fault] = refused.value.faults
    assert fault.location.partition(" ")[2] == location
    assert problem in fault.problem
    assert fault.fix


def test_records_that_wait_for_one_key_need_room_for_metadata() -> None:
    """``Unavailable(key=True)`` lets them wait in place, also where the handler keeps the order of a partition."""
    assert [plan(load_settings(_text("bank: {}", needs=each)), {}).out_of_order for each in ("", "bank")] == [
        False,
        True,
    ]
