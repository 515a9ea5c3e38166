"""Build contexts as archives, and building an image from one."""

import hashlib
import io
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from docker import DockerClient
from docker.errors import BuildError

from tests.containers.base_image import exists

Context = Mapping[str, Path | bytes]
"""Files by their path in the context; a folder stands for all files in it."""


def files(context: Context) -> Iterator[tuple[str, Path | bytes]]:
    """Return every single file, in order."""
    for name, content in sorted(context.items()):
        if isinstance(content, Path) and content.is_dir():
            for path in sorted(content.rglob("*")):
                if path.is_file():
                    yield f"{name}/{path.relative_to(content)}", path
        else:
            yield name, content


def fingerprint(context: Context, **arguments: str) -> str:
    """Return a hash of all contents."""
    digest = hashlib.sha256(repr(sorted(arguments.items())).encode())
    for name, content in files(context):
        digest.update(name.encode() + b"\0")
        digest.update(content if isinstance(content, bytes) else content.read_bytes())
    return digest.hexdigest()[:12]


def built(
    client: DockerClient, repository: str, context: Context, *, target: str | None = None, **arguments: str
) -> str:
    """Return the tag of the image of this context; build it if it does not exist.

    Args:
        client: the engine.
        repository: the part of the tag before the colon.
        context: the ``Dockerfile`` and the files that it copies.
        target: the stage to build, ``None`` = the last one.
        arguments: build arguments.

    Uses the engine's own build, which needs neither a command line nor a plugin.

    Raises:
        AssertionError: the build failed; its output is the message.
    """
    tag = f"{repository}:{fingerprint(context, **arguments)}"
    if exists(client, tag):
        return tag
    try:
        client.images.build(
            fileobj=_archive(context),
            custom_context=True,
            tag=tag,
            target=target,
            buildargs=dict(arguments),
            rm=True,
            forcerm=True,
        )
    except BuildError as error:
        said: list[dict[str, Any]] = list(error.build_log)
        raise AssertionError("".join(str(line.get("stream", "")) for line in said) + str(error)) from error
    return tag


def _archive(context: Context) -> io.BytesIO:
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        for name, content in files(context):
            entry = tarfile.TarInfo(name)
            # The same content gives the same layer, whatever the owner and the time of the files.
            entry.mode = 0o755 if isinstance(content, Path) and content.stat().st_mode & 0o100 else 0o644
            read = content if isinstance(content, bytes) else content.read_bytes()
            entry.size = len(read)
            tar.addfile(entry, io.BytesIO(read))
    archive.seek(0)
    return archive
