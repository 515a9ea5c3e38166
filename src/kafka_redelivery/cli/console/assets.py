"""The files that a browser loads: their hashes, and the addresses that change with them."""

from __future__ import annotations

import base64
import hashlib
import json
from pathlib import Path
from typing import Any, Final, NamedTuple

from starlette.requests import Request
from starlette.responses import Response

FOLDER: Final = Path(__file__).parent / "assets"
MANIFEST: Final = "manifest.json"
"""Names, versions, licences and SHA-256 of the files that others wrote."""

_TYPES: Final = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}
_YEAR_S: Final = 31_536_000


class Asset(NamedTuple):
    """One file."""

    name: str
    content: bytes
    digest: bytes

    @property
    def address(self) -> str:
        """The path under which it is served; another content has another one."""
        return f"/assets/{self.digest.hex()[:16]}/{self.name}"

    @property
    def integrity(self) -> str:
        """What a page says about it, so that a browser refuses any other content."""
        return "sha256-" + base64.b64encode(self.digest).decode()


class Assets:
    """All files, which are read once."""

    def __init__(self, folder: Path = FOLDER) -> None:
        self._assets = {each.name: _asset(each) for each in sorted(folder.iterdir()) if each.suffix in _TYPES}

    def __getitem__(self, name: str) -> Asset:
        return self._assets[name]

    def serve(self, request: Request) -> Response:
        """Return a file. Its address names its content, so that a browser may keep it."""
        found = self._assets.get(request.path_params["name"])
        if found is None or found.digest.hex()[:16] != request.path_params["digest"]:
            return Response("there is no such file", 404, media_type="text/plain")
        headers = {"Cache-Control": f"public, max-age={_YEAR_S}, immutable"}
        return Response(found.content, headers=headers, media_type=_TYPES[Path(found.name).suffix])


def manifest(folder: Path = FOLDER) -> list[dict[str, Any]]:
    """Return what is known of the files that others wrote."""
    found: list[dict[str, Any]] = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    return found


def _asset(file: Path) -> Asset:
    content = file.read_bytes()
    return Asset(file.name, content, hashlib.sha256(content).digest())
