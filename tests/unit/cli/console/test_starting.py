"""A console is not started where strangers could reach it, nor with a file of tokens that others may read."""

import socket
from pathlib import Path

import pytest

from kafka_redelivery.cli.console.access import (
    LocalUser,
    Role,
    TokenLogin,
    Tokens,
    TrustedProxy,
    User,
    new_token,
)
from kafka_redelivery.cli.console.command import ConsoleCommand, is_loopback
from kafka_redelivery.cli.console.server import listen
from kafka_redelivery.consumers.errors import CannotStartError
from kafka_redelivery.topology.errors import OptionError
from tests.scenarios.secured import certificate

_LONG = "a-token-that-is-long-enough"


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.7", "console.example", "192.168.1.4"])  # noqa: S104
def test_others_are_not_let_in_without_authentication(host: str) -> None:
    """The message says what to give."""
    with pytest.raises(OptionError, match="--tokens FILE"):
        ConsoleCommand(host=host).authentication()


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "localhost"])
def test_on_loopback_it_is_the_user_of_the_machine(host: str) -> None:
    """With the role of an admin."""
    found = ConsoleCommand(host=host).authentication()
    assert isinstance(found, LocalUser)
    visitor = found.visitor(None)  # type: ignore[arg-type] # it does not look at the request
    assert visitor is not None
    assert visitor.user.role is Role.ADMIN
    assert is_loopback(host)


def test_options_that_do_not_fit_together(tmp_path: Path) -> None:
    """A header without a proxy would be believed from anyone."""
    tokens = _file(tmp_path, f"ann admin {_LONG}")
    for changes in (
        {"user_header": "X-User"},
        {"role_header": "X-Role"},
        {"trusted_proxy": ["10.0.0.1"]},
        {"trusted_proxy": ["proxy"], "user_header": "X-User"},
        {"trusted_proxy": ["10.0.0.1"], "user_header": "X-User", "tokens": tokens},
    ):
        with pytest.raises(OptionError):
            ConsoleCommand(**changes).authentication()
    assert isinstance(ConsoleCommand(host="10.0.0.7", tokens=tokens).authentication(), TokenLogin)
    proxied = ConsoleCommand(host="10.0.0.7", trusted_proxy=["10.0.0.1", "fd00::/8"], user_header="X-User")
    assert isinstance(proxied.authentication(), TrustedProxy)


@pytest.mark.parametrize(
    ("files", "option", "problem"),
    [
        ((None, "identity"), "certificate", "needs --certificate and --certificate-key"),
        (("missing", "identity"), "certificate", "missing cannot be read: No such file"),
        (("identity", "missing"), "certificate-key", "missing cannot be read: No such file"),
        (("text", "identity"), "certificate", "text is no certificate for the private key"),
        (("identity", "text"), "certificate", "is no certificate for the private key"),
        (("identity", "other"), "certificate", "is no certificate for the private key"),
    ],
)
def test_a_certificate_that_cannot_be_used(
    tmp_path: Path, files: tuple[str | None, str], option: str, problem: str
) -> None:
    """The file and the option are named."""
    (tmp_path / "of another").mkdir()
    (tmp_path / "text").write_text("text", encoding="utf-8")
    found = {"identity": certificate(tmp_path)[1], "other": certificate(tmp_path / "of another")[1]}
    first, second = (None if each is None else found.get(each, tmp_path / each) for each in files)
    with pytest.raises(OptionError, match=problem) as caught:
        ConsoleCommand(certificate=first, certificate_key=second)._tls()
    assert caught.value.option == option
    assert ConsoleCommand(certificate=found["identity"], certificate_key=found["identity"])._tls() is not None
    assert ConsoleCommand()._tls() is None


def _file(folder: Path, text: str, mode: int = 0o600) -> Path:
    file = folder / "tokens"
    file.write_text(text, encoding="utf-8")
    file.chmod(mode)
    return file


def test_tokens_are_read(tmp_path: Path) -> None:
    """As they are, or as their hash; comments and empty lines are left out."""
    token, line = new_token("bob", Role.VIEWER)
    tokens = Tokens.read(_file(tmp_path, f"# people\n\nann operator {_LONG}\n{line}\n"))
    assert tokens.user_of(_LONG) == User("ann", Role.OPERATOR)
    assert tokens.user_of(token) == User("bob", Role.VIEWER)
    assert tokens.user_of("") is None
    assert tokens.user_of(line.split()[2]) is None, "the hash is no token"
    assert token not in line


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "no token"),
        ("ann operator", "2 words"),
        (f"ann king {_LONG}", "roles viewer, operator, admin"),
        ("ann operator short", "can be guessed"),
        ("ann operator sha256:12", "64 hex digits"),
        (f"ann operator {_LONG}\nann admin {_LONG}x", "twice"),
        (f"<b> operator {_LONG}", "no name"),
        (f"ann {_LONG} operator", "roles viewer, operator, admin"),
        (f"{_LONG}/== ann operator", "no name"),
        (f"{_LONG} operator {_LONG}x\n{_LONG} operator {_LONG}y", "twice"),
    ],
)
def test_a_wrong_file_of_tokens(tmp_path: Path, text: str, problem: str) -> None:
    """The message names the line and the fix, and no token."""
    with pytest.raises(CannotStartError, match=problem) as caught:
        Tokens.read(_file(tmp_path, text))
    assert _LONG not in str(caught.value)
    assert "short" not in str(caught.value)


@pytest.mark.parametrize("mode", [0o644, 0o602, 0o666])
def test_a_file_that_others_may_read_or_write(tmp_path: Path, mode: int) -> None:
    """It is refused: they could take a token, or give themselves one; so is a file that is not there."""
    with pytest.raises(CannotStartError, match="chmod o-rw"):
        Tokens.read(_file(tmp_path, f"ann admin {_LONG}", mode))
    with pytest.raises(CannotStartError, match="cannot be read"):
        Tokens.read(tmp_path / "none")


def test_answers_do_not_wait_for_an_acknowledgement() -> None:
    """The kernel sends a page although the browser has not acknowledged its head."""
    with listen("127.0.0.1", 0, or_any=True) as opened, socket.create_connection(opened.getsockname()):
        accepted, _ = opened.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
