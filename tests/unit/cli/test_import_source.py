"""What `redelivery import` may be given as its source."""

import os
import sys
from pathlib import Path
from threading import Thread

import pytest

from cli import import_source
from cli.import_source import read_source
from topology.migration.result import MigrationError
from topology.migration.values import Values

XML = b"""<broker xmlns="http://activemq.apache.org/schema/core">
  <destinations><queue physicalName="q"/></destinations></broker>"""


@pytest.fixture(autouse=True)
def _in_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("my conf").mkdir()
    Path("my conf/activemq.xml").write_bytes(XML)


def names(source: str) -> list[str]:
    """The destinations that a source names."""
    return read_source(source, Values()).destinations


def refused(source: str) -> str:
    """Why a source is refused, on one line."""
    with pytest.raises(MigrationError) as caught:
        read_source(source, Values())
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    "source",
    [
        "my conf/activemq.xml",
        "file:my%20conf/activemq.xml",
        "file://{folder}/my%20conf/activemq.xml",
        "FILE:{folder}/my%20conf/activemq.xml",
        "file://localhost{folder}/my%20conf/activemq.xml",
        "xbean:my conf/activemq.xml",
        "xbean:file:my%20conf/activemq.xml?validate=false",
    ],
)
def test_a_file_may_be_given_as_a_broker_is(source: str, tmp_path: Path) -> None:
    """As a path, as the URI of a file, or as the URI that a broker is started with."""
    assert names(source.format(folder=tmp_path)) == ["queue:q"]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("file:///no/such.xml", "there is no such file"),
        ("xbean:no-such.xml", "there is no such file"),
        ("file://conf.example/activemq.xml", "is a file on conf.example; copy it here"),
        ("https://conf.example/activemq.xml?raw=true", "is a file on the web; download it"),
        ("C:\\conf\\activemq.xml", "there is no such file"),
        ("my conf", "cannot be read: Is a directory"),
        ("/dev/zero", "is larger than 10 MiB"),
        ("/dev/null", "is no well-formed XML"),
        ("x" * 5000, "cannot be read: File name too long"),
    ],
)
def test_what_is_no_source_is_refused(source: str, message: str) -> None:
    """With what to do about it."""
    assert message in refused(source)


def test_a_file_counts_before_a_uri() -> None:
    """A name that looks like one is a file if there is such a file."""
    Path("tcp:conf.xml").write_bytes(XML)
    assert names("tcp:conf.xml") == ["queue:q"]


def test_a_pipe_is_read_to_its_end() -> None:
    """Whatever the sizes of its pieces: what a shell substitutes for a command."""
    reader, writer = os.pipe()

    def write() -> None:
        with os.fdopen(writer, "wb") as pipe:
            pipe.write(b"<!--" + b" " * 300_000 + b"-->")
            pipe.flush()
            pipe.write(XML)

    thread = Thread(target=write)
    thread.start()
    try:
        assert names(f"/dev/fd/{reader}") == ["queue:q"]
    finally:
        os.close(reader)
        thread.join()


def test_a_pipe_that_says_nothing_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody writes to it, so nothing would ever come."""
    monkeypatch.setattr(import_source, "_SILENT_S", 0.1)
    os.mkfifo("silent.xml")
    assert "nothing came from it for 0.1 s" in refused("silent.xml")


def test_a_closed_standard_input_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in ``redelivery import - <&-``."""
    monkeypatch.setattr(sys, "stdin", None)
    assert "standard input: is closed" in refused("-")


@pytest.mark.parametrize(
    "uri", ["tcp://a:1", "failover:(tcp://a?x=y,tcp://b)", "vm://localhost", "discovery:(static:b)"]
)
def test_a_transport_of_the_client_is_a_uri(uri: str) -> None:
    """Nothing is said of it."""
    assert "no transport" not in str(read_source(uri, Values()).notes)


@pytest.mark.parametrize("uri", ["amqp://a:5672", "localhost:61616", "TCP://a:1", ""])
def test_any_other_scheme_is_told(uri: str) -> None:
    """The factory takes it, the connection does not."""
    given = f"{uri.partition(':')[0]}:" if uri else "an empty text"
    assert f"{given} is no transport of the JMS client" in str(read_source(uri, Values()).notes[0])


def test_the_file_of_a_broker_in_the_client_is_to_be_given_itself() -> None:
    """The policies in it are not the URI's."""
    notes = read_source("vm://localhost?brokerConfig=xbean:activemq.xml", Values()).notes
    assert "give the broker's file itself to the import" in "\n".join(map(str, notes))
