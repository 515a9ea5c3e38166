"""A file system that can be filled, mounted while a test runs."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from kafka_redelivery.transport.broker.guard import GuardedProcess
from tests.scenarios.waiting import until

SIZE_MB: Final = 192
_MOUNT: Final = """
mount -t tmpfs -o size={size}m tmpfs "{folder}" || exit 1
trap 'umount -l "{folder}"; exit 0' TERM INT HUP
while :; do sleep 1 & wait $!; done
"""


class SmallDisk:
    """A tmpfs on a folder. A process of its own holds the mount, which ends with the test process even by SIGKILL."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        self.folder = folder
        self._filler = folder / "filler"
        script = _MOUNT.format(size=SIZE_MB, folder=folder)
        self._holder = GuardedProcess(["/bin/sh", "-c", script])
        until(lambda: folder.is_mount() or self._holder.poll() is not None, "the file system is mounted")
        assert folder.is_mount(), "mount failed"

    def unmount(self) -> None:
        """End the mount."""
        self._holder.terminate()
        self._holder.wait(10)

    @contextlib.contextmanager
    def full(self) -> Iterator[None]:
        """Take up all space that is free, and whatever else becomes free."""
        with self._filler.open("wb", buffering=0) as filler:
            self.take(filler.fileno())
            yield
        self._filler.unlink()

    def take(self, filler: int) -> None:
        """Write to a file until there is no space left."""
        with contextlib.suppress(OSError):
            while True:
                os.write(filler, bytes(4096))


def can_mount() -> bool:
    """Whether this process may mount file systems."""
    return os.geteuid() == 0
