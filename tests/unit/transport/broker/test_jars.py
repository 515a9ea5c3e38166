import hashlib
import re
import socket
from pathlib import Path

import pytest

from kafka_redelivery.transport.broker.jars import (
    KAFKA_VERSION,
    kafka_jars,
    kafka_lock,
    locked_jars,
)
from kafka_redelivery.transport.errors import TransportError

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
    """The cached jar with the pinned content."""
    path = tmp_path / "jars" / "thing-1.0.jar"
    path.parent.mkdir()
    path.write_bytes(_CONTENT)
    return path


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """All connections go to a closed port of this machine."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{unused.getsockname()[1]}")


def test_every_jar_of_the_broker_is_pinned() -> None:
    """The lock file pins each jar with a SHA-256, including the broker's own."""
    jars = locked_jars()

    assert all(re.fullmatch(r"[0-9a-f]{64}", jar.sha256) for jar in jars)
    assert len({jar.name for jar in jars}) == len(jars)
    assert f"kafka_2.13-{KAFKA_VERSION}.jar" in {jar.name for jar in jars}


@pytest.mark.usefixtures("no_network")
def test_cached_jars_need_no_network(tmp_path: Path, lock_file: Path, cached: Path) -> None:
    """A cached jar with the pinned digest is used without a request."""
    assert kafka_jars(tmp_path, lock_file) == (cached,)


@pytest.mark.usefixtures("no_network")
def test_changed_jar_is_refused(tmp_path: Path, lock_file: Path, cached: Path) -> None:
    """The error names the file, both digests and the fix."""
    cached.write_bytes(b"something else")
    found = hashlib.sha256(b"something else").hexdigest()

    with pytest.raises(TransportError) as caught:
        kafka_jars(tmp_path, lock_file)

    assert all(part in str(caught.value) for part in (str(cached), found, _DIGEST, "delete it"))


@pytest.mark.usefixtures("no_network")
def test_error_names_the_jar_that_cannot_be_fetched(tmp_path: Path, lock_file: Path) -> None:
    """Without network and cache the error names jar and directory, and no partial file is left."""
    with pytest.raises(TransportError, match=rf"org.example:thing:1.0 is not in {tmp_path}/jars and"):
        kafka_jars(tmp_path, lock_file)

    assert list((tmp_path / "jars").iterdir()) == []


@pytest.mark.usefixtures("no_network")
def test_another_version_is_pinned_in_the_cache(tmp_path: Path) -> None:
    """The file that its first use has written is used without a request; the default's comes with the package."""
    pinned = tmp_path / "jars" / "kafka-4.3.1.txt"
    pinned.parent.mkdir()
    pinned.touch()

    assert kafka_lock("4.3.1", tmp_path) == pinned
    assert locked_jars(kafka_lock(KAFKA_VERSION, tmp_path)) == locked_jars()


@pytest.mark.usefixtures("no_network")
def test_error_names_the_version_that_cannot_be_fetched(tmp_path: Path) -> None:
    """Without network and cache the error names version and directory, and no partial file is left."""
    with pytest.raises(TransportError, match=r"Apache Kafka 4.3.1 is not in"):
        kafka_lock("4.3.1", tmp_path)

    assert list((tmp_path / "jars").iterdir()) == []
