"""Tokens of a function of the user: one for all clients, renewed before it ends, and bounded whatever it does."""

import logging
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kafka_redelivery.transport import tokens
from kafka_redelivery.transport.admin.errors import login_problem
from kafka_redelivery.transport.client_config import Config
from kafka_redelivery.transport.errors import ClientSettingsError
from kafka_redelivery.transport.tokens import NO_TOKEN, TokenSource, described, find_functions_in, token_source

NOW_S = 1_800_000_000.0
SECRET = "s3cr3t-0f-a-t0ken-server"  # noqa: S105


class Server:
    """A token server and its clock. Its tokens live for 1,000 s."""

    def __init__(self) -> None:
        self.now_s = NOW_S
        self.asked: list[str] = []
        self.answer: Callable[[], object] = self.token

    def token(self) -> tuple[str, float]:
        return f"token{len(self.asked)}", self.now_s + 1000

    def __call__(self, config: str) -> object:
        self.asked.append(config)
        return self.answer()

    def source(self) -> TokenSource:
        return TokenSource("shop.login:token", self, "region=x", lambda: self.now_s)


@pytest.fixture
def server() -> Server:
    """A token server that answers."""
    return Server()


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for a slow function for a short time only, and call a failing one again at once."""
    monkeypatch.setattr(tokens, "_WAIT_S", 0.2)
    monkeypatch.setattr(tokens, "_PAUSE_S", 0.0)


def test_all_clients_get_one_token(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those that ask at the same time: the function is called once, with what it is configured with."""
    monkeypatch.setattr(tokens, "_WAIT_S", 30.0)
    source, may_answer, answers = server.source(), threading.Event(), list[object]()

    def slow() -> object:
        may_answer.wait(30)
        return server.token()

    server.answer = slow
    clients = [threading.Thread(target=lambda: answers.append(source("ignored"))) for _ in range(5)]
    for each in clients:
        each.start()
    may_answer.set()
    for each in clients:
        each.join(30)
    assert answers == [("token1", NOW_S + 1000, "", {})] * 5
    assert server.asked == ["region=x"]
    assert source.problem is None


def test_a_token_is_renewed_before_it_ends(server: Server) -> None:
    """Clients ask after 80 % of its life; one that is opened before gets the old one, with its real end."""
    source = server.source()
    source()
    server.now_s = NOW_S + 740
    assert source()[:2] == ("token1", NOW_S + 1000)
    server.now_s = NOW_S + 800
    assert source()[:2] == ("token2", NOW_S + 1800)


def test_principal_and_extensions_are_passed_on(server: Server) -> None:
    """As the client takes them."""
    server.answer = lambda: ("a.b.c", NOW_S + 10, "me", {"logicalCluster": "lkc-1"})
    assert server.source()() == ("a.b.c", NOW_S + 10, "me", {"logicalCluster": "lkc-1"})
    server.answer = lambda: ("a.b.c", int(NOW_S) + 10, "me")
    assert server.source()() == ("a.b.c", NOW_S + 10, "me", {})


def failing() -> object:
    """A function that fails with a text that quotes a secret."""
    raise ConnectionError(f"no answer from https://me:pw@login/token?client_secret={SECRET} (password={SECRET})")


def test_a_token_that_is_not_renewed_is_used_until_it_ends(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    """The client asks again soon. Then there is none, until the function gives one again."""
    caplog.set_level(logging.INFO)
    source = server.source()
    source()
    server.now_s, server.answer = NOW_S + 800, failing
    assert source()[:2] == ("token1", NOW_S + 810)
    assert source.problem is None
    assert (
        "is not renewed, and ends in 200 s: kafka.oauth_cb shop.login:token has raised ConnectionError" in caplog.text
    )
    server.now_s = NOW_S + 1000
    assert source() == (NO_TOKEN, NOW_S + 1010, "", {})
    assert "there is no token: kafka.oauth_cb shop.login:token has raised ConnectionError" in str(source.problem)
    server.answer = server.token
    assert source()[:2] == ("token4", NOW_S + 2000)
    assert source.problem is None
    assert "gives tokens again" in caplog.text
    assert SECRET not in caplog.text


def test_a_failing_function_is_called_once_in_a_while(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever number of clients ask."""
    monkeypatch.setattr(tokens, "_PAUSE_S", 1000.0)
    server.answer, source = failing, server.source()
    assert [source()[0] for _ in range(5)] == [NO_TOKEN] * 5
    assert len(server.asked) == 1


def test_a_function_that_hangs_delays_nobody_for_long(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its token is taken when it comes. After a minute another call begins beside it."""
    source, may_answer = server.source(), threading.Event()

    def slow() -> object:
        may_answer.wait(30)
        return "late", NOW_S + 1000

    server.answer = slow
    assert source()[0] == source()[0] == NO_TOKEN
    assert len(server.asked) == 1
    assert "has not returned for 0.2 s; give its request a time-out" in str(source.problem)
    monkeypatch.setattr(tokens, "_HUNG_S", 0.0)
    server.answer = failing
    assert source()[0] == NO_TOKEN
    assert len(server.asked) == 2
    monkeypatch.setattr(tokens, "_PAUSE_S", 1000.0)
    monkeypatch.setattr(tokens, "_WAIT_S", 0.01)
    may_answer.set()
    for _ in range(1000):
        if source()[0] == "late":
            break
        threading.Event().wait(0.01)
    assert source() == ("late", NOW_S + 1000, "", {})


def test_a_late_token_replaces_no_newer_one(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may end sooner, or have been revoked."""
    monkeypatch.setattr(tokens, "_HUNG_S", 0.0)
    source, may_answer, calls = server.source(), threading.Event(), list[threading.Thread]()

    def slow() -> object:
        calls.append(threading.current_thread())
        may_answer.wait(30)
        return "late", NOW_S + 500

    server.answer = slow
    assert source()[0] == NO_TOKEN
    server.answer = server.token
    assert source()[0] == "token2"
    may_answer.set()
    calls[0].join(30)
    assert source()[:2] == ("token2", NOW_S + 1000)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (None, "NoneType instead of (token, end in seconds since 1970)"),
        ({"access_token": SECRET}, "dict instead of"),
        (SECRET, "str instead of"),
        ((SECRET,), "tuple instead of"),
        ((SECRET, "soon"), "(str, str) instead of"),
        ((SECRET.encode(), NOW_S + 10), "(bytes, float) instead of"),
        ((SECRET, NOW_S + 10, None), "(str, float, NoneType) instead of"),
        ((SECRET, NOW_S + 10, "me", [SECRET]), "(str, float, str, list) instead of"),
        ((f"<html>{SECRET}</html>", NOW_S + 10), "no bearer token"),
        (("", NOW_S + 10), "no bearer token"),
        ((f"{SECRET}\0", NOW_S + 10), "no bearer token"),
        ((SECRET, (NOW_S + 10) * 1000), "in seconds, not in milliseconds"),
        ((SECRET, float("inf")), "in seconds, not in milliseconds"),
        ((SECRET, float("nan")), "in seconds, not in milliseconds"),
        ((SECRET, NOW_S), "has ended"),
        ((SECRET, 3600), "has ended"),
        ((SECRET, NOW_S + 10, "", {"auth": SECRET}), "extensions"),
        ((SECRET, NOW_S + 10, "", {"a b": SECRET}), "extensions"),
        ((SECRET, NOW_S + 10, "", {"a": "\1"}), "extensions"),
        ((SECRET, NOW_S + 10, "", {"a": 1}), "extensions"),
    ],
)
def test_rubbish_is_named_and_not_shown(server: Server, answer: object, words: str) -> None:
    """The client itself would wait for ever after some of it."""
    server.answer, source = lambda: answer, server.source()
    assert source()[0] == NO_TOKEN
    assert "there is no token: kafka.oauth_cb shop.login:token has returned " in str(source.problem)
    assert words in str(source.problem)
    assert SECRET not in str(source.problem)


class UnprintableError(Exception):
    """Fails when it is to be shown."""

    def __str__(self) -> str:
        raise RuntimeError


@pytest.mark.parametrize("error", [UnprintableError(), SystemExit(1), KeyboardInterrupt()])
def test_whatever_is_raised_is_no_token(server: Server, error: BaseException) -> None:
    """It ends no thread of the client."""

    def fails() -> object:
        raise error

    server.answer, source = fails, server.source()
    assert source()[0] == NO_TOKEN
    assert f"has raised {type(error).__name__}" in str(source.problem)
    assert "(at test_tokens.py:" in str(source.problem)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("401 Client Error: Unauthorized for url: https://login.example/v2.0/token", None),
        ("Could not connect to the endpoint URL: https://sts.eu-west-1.amazonaws.com/", None),
        ("[Errno 111] Connection refused", None),
        ("https://user:pass@login/token?code=1", "https://********@login/token?********"),
        ('{"access_token": "ab12"}', '{"access_token": ********"}'),
        ("client_secret=hunter2&grant_type=x", "client_secret=********&grant_type=x"),
        ("Bearer eyJhbGciOiJub25lIn0.eyJzdWIiOiJtZSJ9.", "Bearer ********.********."),
        ("two\nlines", "two\\nlines"),
        ("x" * 1000, "x" * 300),
    ],
)
def test_what_may_be_a_secret_is_hidden(text: str, shown: str | None) -> None:
    """And an address stays as it is, without user and query."""
    assert described(ValueError(text)) == f"ValueError: {text if shown is None else shown}"


@pytest.fixture
def module(tmp_path: Path) -> Iterator[str]:
    """A module beside a configuration file."""
    (tmp_path / "shop_login.py").write_text(
        "def token(config):\n    raise OSError('down')\nasync def later(config):\n    pass\nnone = None\n"
    )
    before = list(sys.path)
    find_functions_in({"bootstrap.servers": "x"}, [str(tmp_path)])
    assert sys.path == before
    find_functions_in({"admin.oauth_cb": "x"}, [str(tmp_path), str(tmp_path)])
    assert sys.path == [*before, str(tmp_path)]
    yield "shop_login"
    sys.path[:] = before
    sys.modules.pop("shop_login", None)


def login(name: str, **others: str) -> Config:
    """Settings of a client that logs in with tokens."""
    clear: Config = {"security.protocol": "sasl_ssl", "sasl.mechanism": "OAUTHBEARER", "bootstrap.servers": "x:1"}
    return clear | {"oauth_cb": name} | others


def test_a_function_has_one_source_in_a_process(module: str) -> None:
    """For each configuration of it. A client that does not log in with tokens has none."""
    settings = login(f"{module}:token")
    assert token_source(settings) is token_source(settings | {"client.id": "other"})
    assert token_source(settings) is not token_source(settings | {"sasl.oauthbearer.config": "region=x"})
    assert token_source(settings | {"security.protocol": "SSL"}) is None
    assert token_source(settings | {"sasl.mechanism": "PLAIN"}) is None


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("shop_login:tokens", "cannot be imported: AttributeError: module 'shop_login' has no attribute 'tokens'"),
        ("shop_logins:token", "cannot be imported: ModuleNotFoundError: No module named 'shop_logins'"),
        ("shop_login:later", "is no plain function"),
        ("shop_login:none", "is no plain function"),
    ],
)
def test_a_function_that_is_not_there(module: str, name: str, words: str) -> None:
    """It is named when the first client is opened."""
    del module
    with pytest.raises(ClientSettingsError, match=f"kafka.oauth_cb names {name}, which") as caught:
        token_source(login(name))
    assert words in str(caught.value)


def test_a_refused_login_names_the_function(module: str) -> None:
    """With the cause, if there is no token; with what the brokers say, if there is one."""
    settings = login(f"{module}:token")
    source = token_source(settings)
    assert source is not None
    assert "check what oauth_cb shop_login:token returns" in login_problem(settings, "invalid_token")
    assert source()[0] == NO_TOKEN
    problem = login_problem(settings, "invalid_token")
    assert problem == (
        "cannot log in at x:1 as the client with OAUTHBEARER: there is no token: kafka.oauth_cb shop_login:token has "
        "raised OSError: down (at shop_login.py:2); correct the cause"
    )
