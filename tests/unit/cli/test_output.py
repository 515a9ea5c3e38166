"""Text of records does nothing to a terminal: no markup, no escape sequences."""

import io
import json
import re
import sys

import pytest
from rich.table import Table

from kafka_redelivery.cli import output
from kafka_redelivery.cli.command import report
from kafka_redelivery.consumers.errors import HaltedError

_KEY = "[red]x[/red] :bank: \x1b]0;title\x07 \x9b2J"
_SHOWN = r"[red]x[/red] :bank: \x1b]0;title\x07 \x9b2J"
_OF_RICH = re.compile(r"\x1b\[[0-9;]*m")
"""What the library writes for colours."""


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("kind", [_Terminal, io.StringIO])
def test_a_hostile_key_is_text(monkeypatch: pytest.MonkeyPatch, kind: type[io.StringIO]) -> None:
    """In a line, styled or not, a table, its headings, an error and a JSON document; on a terminal and in a pipe."""
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "200")
    out, err = kind(), kind()
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", err)
    console = output.stdout()
    console.print(_KEY)
    console.print(f"note: {_KEY}", style="yellow", soft_wrap=True)
    table = Table(_KEY, title=_KEY)
    table.add_row(_KEY, style="red")
    output.print_table(console, table)
    assert report(HaltedError(f"ValueError: {_KEY}\n{_KEY}"), as_json=False)
    shown = _OF_RICH.sub("", out.getvalue() + err.getvalue())
    assert shown.count(_SHOWN) == 7
    assert shown.replace("\n", "").isprintable()

    out.truncate(0)
    out.seek(0)
    output.print_json({_KEY: _KEY})
    assert out.getvalue().replace("\n", "").isprintable()
    assert json.loads(out.getvalue()) == {_KEY: _KEY}


class _Pipe(io.TextIOWrapper):
    terminal = False

    def isatty(self) -> bool:
        return self.terminal


@pytest.mark.parametrize("data", [f"{_KEY}\nnext\n".encode(), b"\xff\x1b[2J", b"", "é".encode()])
def test_bytes_of_a_record(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    """They are unchanged in a file or a pipe; on a terminal no character does anything."""
    for terminal in (False, True):
        written = io.BytesIO()
        out = _Pipe(written, encoding="utf-8")
        out.terminal = terminal
        monkeypatch.setattr(sys, "stdout", out)
        output.print_bytes(data)
        out.flush()
        shown = written.getvalue().decode(errors="replace")
        if terminal:
            assert shown.replace("\n", "").isprintable()
            assert shown.endswith("\n")
        else:
            assert written.getvalue() == data
