"""``./dev docs``: builds the documentation as a site, and serves it."""

from __future__ import annotations

import sys
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Annotated

import typer
from sphinx.cmd.build import build_main

from docs.site.reference import documents

ROOT = Path(__file__).parents[2]


def main(
    folder: Annotated[Path, typer.Option(help="Folder of the site.")] = ROOT / "build/docs",
    port: Annotated[int, typer.Option(help="Port on 127.0.0.1.")] = 8000,
    builder: Annotated[str, typer.Option(help="Sphinx's builder; dummy checks all pages and writes none.")] = "html",
    *,
    write: Annotated[bool, typer.Option("--write", help="Only write docs/reference/*.md from the code.")] = False,
    serve: Annotated[bool, typer.Option(help="Serve the site until Ctrl-C.")] = True,
) -> None:
    """Build the documentation as a site, and serve it on this machine. Each warning is an error."""
    if write:
        for path, text in documents().items():
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
        return
    code = build_main(
        ["-q", "-W", "-b", builder, "-d", f"{folder}.read", "-c", str(ROOT / "docs/site"), str(ROOT), str(folder)]
    )
    if code or not serve:
        raise typer.Exit(code)
    handler = partial(SimpleHTTPRequestHandler, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", port), handler) as server:
        sys.stdout.write(f"http://127.0.0.1:{server.server_port}/ (Ctrl-C ends it)\n")
        server.serve_forever()


if __name__ == "__main__":
    typer.run(main)
