"""`redelivery console`: checks the options, and refuses what would let strangers in.

Without ``from __future__ import annotations``, as typer needs the types of the options.
"""

import ipaddress
import ssl
import webbrowser
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final
from urllib.parse import urlsplit

import typer

from kafka_redelivery.cli.options import (
    DEFAULT_CONFIG,
    ConfigFile,
    LogFormat,
    LogFormatOption,
    LogLevel,
    LogLevelOption,
    Overrides,
    begin_log,
    load,
)
from kafka_redelivery.cli.output import stderr, stdout
from kafka_redelivery.consumers.errors import ConsumersError
from kafka_redelivery.topology.config.settings import Payloads
from kafka_redelivery.topology.errors import OptionError
from kafka_redelivery.topology.urls import has_secret

if TYPE_CHECKING:
    from kafka_redelivery.cli.console.access import Authentication

PACKAGES: Final = ("anyio", "jinja2", "python_multipart", "starlette", "uvicorn")
"""What the extra `console` brings, by the names that are imported."""

_PORT: Final = 8080


@dataclass(frozen=True, kw_only=True)
class ConsoleCommand:
    """Serve a web console: what moves and waits, failures, letters, jobs, topology and the audit trail.

    It listens on this machine alone, for the user that runs it. On another address it needs --tokens or
    --trusted-proxy. A job that is started in the console runs in its process; when that ends, the job waits, and
    `redelivery dlq resume` or the console goes on with it.
    """

    config: ConfigFile = DEFAULT_CONFIG
    overrides: Overrides = None
    host: Annotated[str, typer.Option("--host", metavar="ADDRESS", help="The address to listen on.")] = "127.0.0.1"
    port: Annotated[
        int | None,
        typer.Option("--port", min=0, max=65535, help="Default: 8080, or any free port if it is taken."),
    ] = None
    open_browser: Annotated[bool, typer.Option("--open", help="Open the console in a browser.")] = False
    tokens: Annotated[
        Path | None,
        typer.Option("--tokens", metavar="FILE", help="Who may log in: lines of name, role and token."),
    ] = None
    trusted_proxy: Annotated[
        list[str] | None,
        typer.Option("--trusted-proxy", metavar="ADDRESS", help="A proxy that says who the user is; repeatable."),
    ] = None
    user_header: Annotated[
        str | None, typer.Option("--user-header", metavar="NAME", help="The proxy's header with the user's name.")
    ] = None
    role_header: Annotated[
        str | None,
        typer.Option(
            "--role-header", metavar="NAME", help="The proxy's header with the role. Default: all are viewers."
        ),
    ] = None
    read_only: Annotated[bool, typer.Option("--read-only", help="Refuse all changes.")] = False
    hide_payloads: Annotated[
        bool,
        typer.Option("--hide-payloads", help="Show no keys, values and headers, and answer no question about them."),
    ] = False
    certificate: Annotated[
        Path | None, typer.Option("--certificate", metavar="FILE", help="Serve HTTPS with this certificate (PEM).")
    ] = None
    certificate_key: Annotated[
        Path | None, typer.Option("--certificate-key", metavar="FILE", help="Its private key (PEM).")
    ] = None
    index: Annotated[
        Path | None,
        typer.Option("--index", metavar="FOLDER", help="Where to keep the index. Default: in the user's cache."),
    ] = None
    grafana: Annotated[
        str | None, typer.Option("--grafana", metavar="URL", help="Link to the dashboards of this Grafana.")
    ] = None
    new_token: Annotated[
        str | None,
        typer.Option("--new-token", metavar="NAME:ROLE", help="Print a new token and its line for --tokens; then end."),
    ] = None
    log_level: LogLevelOption = LogLevel.WARNING
    log_format: LogFormatOption = LogFormat.TEXT

    def __call__(self) -> None:
        """Serve until a signal, or print a new token."""
        if not all(map(find_spec, PACKAGES)):
            raise ConsumersError(
                "the console needs the extra console: pip install 'kafka-redelivery[console]', in a checkout "
                "pip install '.[console]'"
            )
        begin_log(self.log_level, self.log_format)
        if self.new_token is not None:
            _print_token(self.new_token)
        else:
            self._serve()

    def _serve(self) -> None:
        from kafka_redelivery.cli.console.console import Console
        from kafka_redelivery.cli.console.guard import LOOPBACK
        from kafka_redelivery.cli.console.options import ConsoleOptions
        from kafka_redelivery.cli.console.server import listen, serve

        settings = load(self.config, self.overrides)
        authentication = self.authentication()
        tls = self._tls()
        if self.grafana is not None and urlsplit(self.grafana).scheme not in {"http", "https"}:
            raise OptionError("grafana", "is no address that begins with http:// or https://")
        if self.grafana is not None and has_secret(self.grafana):
            raise OptionError("grafana", "has a password or a token, which each page would show; leave it out")
        section = settings.console
        grafana = self.grafana or section.grafana
        options = ConsoleOptions(
            read_only=self.read_only or section.read_only,
            hide_payloads=self.hide_payloads or section.payloads is Payloads.HIDDEN,
            confirm_over=section.confirm_over,
            index=self.index,
            grafana=None if grafana is None else grafana.rstrip("/"),
        )
        try:
            opened = listen(self.host, _PORT if self.port is None else self.port, or_any=self.port is None)
        except OSError as error:
            raise OptionError("port", f"cannot listen on {error}") from None
        name = f"[{self.host}]" if ":" in self.host else self.host
        scheme = "http" if self.certificate is None else "https"
        address = f"{scheme}://{name}:{opened.getsockname()[1]}"
        stdout().print(f"console of group {settings.group}: {address}", soft_wrap=True)
        if scheme == "http" and not is_loopback(self.host) and self.tokens is not None:
            stderr().print(
                "warning: tokens cross the network unencrypted; give --certificate and --certificate-key, or put a "
                "proxy with TLS in front",
                style="yellow",
            )
        if self.open_browser:
            webbrowser.open(address)
        console = Console(settings, self.config.absolute().parent, options, authentication)
        own = is_loopback(self.host) and not self.trusted_proxy
        serve(console, opened, LOOPBACK if own else None, tls, proxied=bool(self.trusted_proxy))

    def _tls(self) -> ssl.SSLContext | None:
        """Return what encrypts connections; ``None`` without a certificate.

        Raises:
            OptionError: a file cannot be used.
        """
        if self.certificate is None or self.certificate_key is None:
            if self.certificate is not self.certificate_key:
                raise OptionError("certificate", "needs --certificate and --certificate-key")
            return None
        for option, file in (("certificate", self.certificate), ("certificate-key", self.certificate_key)):
            try:
                file.read_bytes()
            except OSError as error:
                raise OptionError(option, f"{file} cannot be read: {error.strerror or error}") from None
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        try:
            context.load_cert_chain(self.certificate, self.certificate_key)
        except ssl.SSLError as error:
            problem = f"{self.certificate} is no certificate for the private key {self.certificate_key}, both as PEM"
            raise OptionError("certificate", f"{problem}: {error.reason or error}") from None
        return context

    def authentication(self) -> "Authentication":
        """Return how the console finds out who asks.

        Raises:
            OptionError: strangers would be let in, or options do not fit together.
            CannotStartError: the file with the tokens cannot be used.
        """
        from kafka_redelivery.cli.console.access import LocalUser, Role, TokenLogin, Tokens, TrustedProxy, User
        from kafka_redelivery.dead_letters.ledger import user_name

        if self.tokens is not None:
            if self.trusted_proxy:
                raise OptionError("trusted-proxy", "excludes --tokens")
            return TokenLogin(Tokens.read(self.tokens))
        if self.trusted_proxy:
            if not self.user_header:
                raise OptionError("user-header", "is needed with --trusted-proxy")
            try:
                networks = [ipaddress.ip_network(each, strict=False) for each in self.trusted_proxy]
            except ValueError as error:
                raise OptionError("trusted-proxy", str(error)) from None
            return TrustedProxy(networks, self.user_header, self.role_header)
        if self.user_header or self.role_header:
            raise OptionError("trusted-proxy", "is needed with --user-header and --role-header")
        if not is_loopback(self.host):
            raise OptionError(
                "host",
                f"{self.host} can be reached by others, who could read and send dead letters; "
                "say who may with --tokens FILE, or name the --trusted-proxy that authenticates them",
            )
        return LocalUser(User(user_name(), Role.ADMIN))


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _print_token(text: str) -> None:
    """Print a new token for ``NAME:ROLE``, and its line for the file."""
    from kafka_redelivery.cli.console.access import Role, new_token

    name, _, role = text.partition(":")
    try:
        token, line = new_token(name, Role.of(role))
    except ValueError as error:
        raise OptionError("new-token", str(error)) from None
    stdout().print(f"give {name} this token:  {token}", soft_wrap=True)
    stdout().print(f"the line for --tokens:  {line}", soft_wrap=True)
