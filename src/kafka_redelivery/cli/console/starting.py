"""From the options of the command to a console that runs; refuses what would let strangers in."""

from __future__ import annotations

import getpass
import ipaddress
import logging
import webbrowser
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import typer

from kafka_redelivery.cli.console.authentication import Authentication, LocalUser, TokenLogin, TrustedProxy, networks_of
from kafka_redelivery.cli.console.console import Console
from kafka_redelivery.cli.console.guard import LOOPBACK
from kafka_redelivery.cli.console.options import ConsoleOptions
from kafka_redelivery.cli.console.serving import PortTakenError, listen, serve
from kafka_redelivery.cli.console.tokens import Tokens, new_token
from kafka_redelivery.cli.console.users import Role, User
from kafka_redelivery.cli.options import load
from kafka_redelivery.cli.output import stderr, stdout
from kafka_redelivery.consumers.telemetry.logs import log_to_stderr
from kafka_redelivery.topology.config.settings import Payloads


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The options of the command."""

    host: str
    port: int
    any_port: bool
    """Whether another port will do if this one is taken."""

    open_browser: bool
    tokens: Path | None
    trusted_proxies: tuple[str, ...]
    user_header: str | None
    role_header: str | None
    read_only: bool
    hide_payloads: bool
    certificate: Path | None
    certificate_key: Path | None
    index: Path | None
    grafana: str | None


def start(config: Path, overrides: list[str] | None, wanted: Wanted) -> None:
    """Run a console until a signal.

    Raises:
        typer.BadParameter: an option is wrong, or strangers would be let in.
    """
    log_to_stderr(logging.WARNING, "%(message)s")
    settings = load(config, overrides)
    authentication = authentication_of(wanted)
    if (wanted.certificate is None) != (wanted.certificate_key is None):
        raise typer.BadParameter("needs --certificate and --certificate-key", param_hint="--certificate")
    if wanted.grafana is not None and urlsplit(wanted.grafana).scheme not in {"http", "https"}:
        raise typer.BadParameter("is no address that begins with http:// or https://", param_hint="--grafana")
    section = settings.console
    grafana = wanted.grafana or section.grafana
    options = ConsoleOptions(
        read_only=wanted.read_only or section.read_only,
        hide_payloads=wanted.hide_payloads or section.payloads is Payloads.HIDDEN,
        confirm_over=section.confirm_over,
        index=wanted.index,
        grafana=None if grafana is None else grafana.rstrip("/"),
    )
    try:
        opened = listen(wanted.host, wanted.port, or_any=wanted.any_port)
    except PortTakenError as error:
        raise typer.BadParameter(f"cannot listen on {error}", param_hint="--port") from None
    port = opened.getsockname()[1]
    name = f"[{wanted.host}]" if ":" in wanted.host else wanted.host
    scheme = "http" if wanted.certificate is None else "https"
    address = f"{scheme}://{name}:{port}"
    stdout().print(f"console of group {settings.group}: {address}", soft_wrap=True)
    if scheme == "http" and not is_loopback(wanted.host) and wanted.tokens is not None:
        stderr().print(
            "warning: tokens cross the network unencrypted; give --certificate and --certificate-key, or put a proxy "
            "with TLS in front",
            style="yellow",
        )
    if wanted.open_browser:
        webbrowser.open(address)
    console = Console(settings, config.absolute().parent, options, authentication)
    own = is_loopback(wanted.host) and not wanted.trusted_proxies
    certificate = None if wanted.certificate is None else str(wanted.certificate)
    key = None if wanted.certificate_key is None else str(wanted.certificate_key)
    serve(console, opened, LOOPBACK if own else None, certificate, key)


def authentication_of(wanted: Wanted) -> Authentication:
    """Return how the console finds out who asks.

    Raises:
        typer.BadParameter: strangers would be let in, or options do not fit together.
        TokenFileError: the file with the tokens cannot be used.
    """
    if wanted.tokens is not None:
        if wanted.trusted_proxies:
            raise typer.BadParameter("excludes --tokens", param_hint="--trusted-proxy")
        return TokenLogin(Tokens.read(wanted.tokens))
    if wanted.trusted_proxies:
        if not wanted.user_header:
            raise typer.BadParameter("is needed with --trusted-proxy", param_hint="--user-header")
        try:
            networks = networks_of(wanted.trusted_proxies)
        except ValueError as error:
            raise typer.BadParameter(str(error), param_hint="--trusted-proxy") from None
        return TrustedProxy(networks, wanted.user_header, wanted.role_header)
    if wanted.user_header or wanted.role_header:
        raise typer.BadParameter("is needed with --user-header and --role-header", param_hint="--trusted-proxy")
    if not is_loopback(wanted.host):
        raise typer.BadParameter(
            f"{wanted.host} can be reached by others, who could read and send dead letters; "
            "say who may with --tokens FILE, or name the --trusted-proxy that authenticates them",
            param_hint="--host",
        )
    return LocalUser(User(_user(), Role.ADMIN))


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def print_token(text: str) -> None:
    """Print a new token for ``NAME:ROLE``, and its line for the file.

    Raises:
        typer.BadParameter: the text is wrong.
    """
    name, _, role = text.partition(":")
    try:
        token, line = new_token(name, Role.of(role))
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--new-token") from None
    stdout().print(f"give {name} this token:  {token}", soft_wrap=True)
    stdout().print(f"the line for --tokens:  {line}", soft_wrap=True)


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container without that user
        return "unknown"
