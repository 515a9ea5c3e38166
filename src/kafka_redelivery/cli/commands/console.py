"""`redelivery console`: a web console for dead letters."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from kafka_redelivery.cli.commands.run import begin_log
from kafka_redelivery.cli.options import (
    DEFAULT_CONFIG,
    ConfigFile,
    LogFormat,
    LogFormatOption,
    LogLevel,
    LogLevelOption,
    Overrides,
)
from kafka_redelivery.topology import exit_codes

_PORT = 8080
PACKAGES = ("anyio", "jinja2", "python_multipart", "starlette", "uvicorn")
"""What the extra `console` brings, by the names that are imported."""


class MissingExtraError(Exception):
    """A package that the command needs is not installed."""

    exit_code = exit_codes.FAILED


def console(
    config: ConfigFile = DEFAULT_CONFIG,
    overrides: Overrides = None,
    host: Annotated[str, typer.Option("--host", metavar="ADDRESS", help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int | None,
        typer.Option("--port", min=0, max=65535, help="Default: 8080, or any free port if it is taken."),
    ] = None,
    open_browser: Annotated[bool, typer.Option("--open", help="Open the console in a browser.")] = False,
    tokens: Annotated[
        Path | None,
        typer.Option("--tokens", metavar="FILE", help="Who may log in: lines of name, role and token."),
    ] = None,
    trusted_proxy: Annotated[
        list[str] | None,
        typer.Option("--trusted-proxy", metavar="ADDRESS", help="A proxy that says who the user is; repeatable."),
    ] = None,
    user_header: Annotated[
        str | None, typer.Option("--user-header", metavar="NAME", help="The proxy's header with the user's name.")
    ] = None,
    role_header: Annotated[
        str | None,
        typer.Option(
            "--role-header", metavar="NAME", help="The proxy's header with the role. Default: all are viewers."
        ),
    ] = None,
    read_only: Annotated[bool, typer.Option("--read-only", help="Refuse all changes.")] = False,
    hide_payloads: Annotated[
        bool,
        typer.Option("--hide-payloads", help="Show no keys, values and headers, and answer no question about them."),
    ] = False,
    certificate: Annotated[
        Path | None, typer.Option("--certificate", metavar="FILE", help="Serve HTTPS with this certificate (PEM).")
    ] = None,
    certificate_key: Annotated[
        Path | None, typer.Option("--certificate-key", metavar="FILE", help="Its private key (PEM).")
    ] = None,
    index: Annotated[
        Path | None,
        typer.Option("--index", metavar="FOLDER", help="Where to keep the index. Default: in the user's cache."),
    ] = None,
    grafana: Annotated[
        str | None, typer.Option("--grafana", metavar="URL", help="Link to the dashboards of this Grafana.")
    ] = None,
    new_token: Annotated[
        str | None,
        typer.Option("--new-token", metavar="NAME:ROLE", help="Print a new token and its line for --tokens; then end."),
    ] = None,
    log_level: LogLevelOption = LogLevel.WARNING,
    log_format: LogFormatOption = LogFormat.TEXT,
) -> None:
    """Serve a web console: what moves and waits, failures, letters, jobs, topology and the audit trail.

    It listens on this machine alone, for the user that runs it. On another address it needs --tokens or
    --trusted-proxy. A job that is started in the console runs in its process; when that ends, the job waits, and
    `redelivery dlq resume` or the console goes on with it.
    """
    _refuse_without_extra()
    begin_log(log_level, log_format)
    from kafka_redelivery.cli.console.starting import Wanted, print_token, start

    if new_token is not None:
        print_token(new_token)
        return
    start(
        config,
        overrides,
        Wanted(
            host=host,
            port=_PORT if port is None else port,
            any_port=port is None,
            open_browser=open_browser,
            tokens=tokens,
            trusted_proxies=tuple(trusted_proxy or ()),
            user_header=user_header,
            role_header=role_header,
            read_only=read_only,
            hide_payloads=hide_payloads,
            certificate=certificate,
            certificate_key=certificate_key,
            index=index,
            grafana=grafana,
        ),
    )


def _refuse_without_extra() -> None:
    """Refuse to start without the packages of the extra.

    Raises:
        MissingExtraError: one is missing.
    """
    if not all(map(find_spec, PACKAGES)):
        raise MissingExtraError("the console needs the extra console: pip install 'kafka-redelivery[console]'")
