"""The instance name of a process that may have siblings with the same configuration, as workers of a server have."""

from __future__ import annotations

import fcntl
import hashlib
import logging
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from kafka_redelivery.consumers.process.clients import Instance
from kafka_redelivery.topology.config.settings import Settings

_log = logging.getLogger(__name__)

_MOST: Final = 1000
"""Names that are tried."""


@contextmanager
def shared_instance(settings: Settings, role: str) -> Iterator[Instance]:
    """Yield the configured name, or one that is made of it, if another process of this machine has it.

    ``billing`` is followed by ``billing.2``, ``billing.3`` and so on. A process that is killed frees its name, so the
    one that replaces it has the same. As the number of the processes may change, those with a number leave the group
    when they stop. The names are locks in a folder of this user among the temporary files; if there can be none, a
    process gets a random name, as it does if none is configured.
    """
    own = Instance.from_settings(settings)
    if not own.stable:
        yield own
        return
    with ExitStack() as stack:
        try:
            number = _lock_first_free(f"{settings.group}\n{role}\n{own.name}", stack)
        except OSError as error:
            own = Instance.random()
            _log.warning("it is unknown whether another process has the instance name: %s; this is %s", error, own.name)
        else:
            if number > 1:
                name = f"{own.name}.{number}"
                _log.info("another process of this machine is instance %s, this one is %s", own.name, name)
                own = Instance(name, stable=True, leaves=True)
        yield own


def _lock_first_free(key: str, stack: ExitStack) -> int:
    folder = Path(tempfile.gettempdir()) / f"kafka-redelivery-{os.geteuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        raise PermissionError(f"{folder} belongs to another user")
    digest = hashlib.sha256(key.encode()).hexdigest()[:32]
    for number in range(1, _MOST + 1):
        lock = os.open(folder / f"{digest}.{number}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            continue
        stack.callback(os.close, lock)
        return number
    raise OSError(f"{_MOST} processes have it")
