import hashlib
import re
import socket
from pathlib import Path

import pytest

from transport.jars import (
    KAFKA_VERSION,
    JarMismatchError,
    JarUnavailableError,
    kafka_jars,
    locked_jars,
)

_CONTENT = b"what was pinned"
_DIGEST = hashlib.sha256(_CONTENT).hexdigest()


@pytest.fixture
def lock_file(tmp_path: Path) -> Path:
    """A lock file that pins one small jar."""
    path = tmp_path / "jars.txt"
    path.write_text(f"# a remark\norg.example:thing:1.0 {_DIGEST}\n")
    return path


@pytest.fixture
def cached(tmp_path: Path) -> Path:
    """That jar as it should be, in the cache."""
    path = tmp_path / "jars" / "thing-1.0.jar"
    path.parent.mkdir()
    path.write_bytes(_CONTENT)
    return path


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every way out leads to a port of this machine where nobody listens."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{unused.getsockname()[1]}")


def test_every_jar_of_the_broker_is_pinned() -> None:
    """The tracked lock file pins each jar with a whole SHA-256, the broker's own among them."""
    jars = locked_jars()

    assert all(re.fullmatch(r"[0-9a-f]{64}", jar.sha256) for jar in jars)
    assert len({jar.name for jar in jars}) == len(jars)
    assert f"kafka_2.13-{KAFKA_VERSION}.jar" in {jar.name for jar in jars}


@pytest.mark.usefixtures("no_network")
def test_a_full_cache_needs_no_network(tmp_path: Path, lock_file: Path, cached: Path) -> None:
    """What is cached and is what was pinned is used without asking anybody."""
    assert kafka_jars(tmp_path, lock_file) == (cached,)


@pytest.mark.usefixtures("no_network")
def test_a_changed_jar_is_refused(tmp_path: Path, lock_file: Path, cached: Path) -> None:
    """A cached jar with another content is not used; the error names the file, both digests and the mend."""
    cached.write_bytes(b"something else")
    found = hashlib.sha256(b"something else").hexdigest()

    with pytest.raises(JarMismatchError) as caught:
        kafka_jars(tmp_path, lock_file)

    assert (caught.value.path, caught.value.found) == (cached, found)
    assert all(part in str(caught.value) for part in (str(cached), found, _DIGEST, "delete it"))


@pytest.mark.usefixtures("no_network")
def test_a_jar_that_cannot_be_fetched_is_named(tmp_path: Path, lock_file: Path) -> None:
    """Without network and cache the error names the jar and the directory, and nothing half-fetched is left."""
    with pytest.raises(JarUnavailableError, match=r"org.example:thing:1.0 is not in") as caught:
        kafka_jars(tmp_path, lock_file)

    assert caught.value.cache == tmp_path / "jars"
    assert list((tmp_path / "jars").iterdir()) == []
