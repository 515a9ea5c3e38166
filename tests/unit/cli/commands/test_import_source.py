"""The argument of `redelivery import`."""

import os
import sys
from pathlib import Path
from threading import Thread

import pytest

from kafka_redelivery.cli.commands import importing
from kafka_redelivery.cli.commands.importing import read_source
from kafka_redelivery.topology.migration.placeholders import PlaceholderValues
from kafka_redelivery.topology.migration.result import MigrationError

XML = b"""<broker xmlns="http://activemq.apache.org/schema/core">
  <destinations><queue physicalName="q"/></destinations></broker>"""


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("my conf").mkdir()
    Path("my conf/activemq.xml").write_bytes(XML)


def names(source: str) -> list[str]:
    """Return the destinations in a source."""
    return read_source(source, PlaceholderValues()).destinations


def refused(source: str) -> str:
    """Return the error message of a refused source."""
    with pytest.raises(MigrationError) as caught:
        read_source(source, PlaceholderValues())
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    "source",
    [
        "my conf/activemq.xml",
        "my conf",
        "file:my%20conf/activemq.xml",
        "file://{folder}/my%20conf/activemq.xml",
        "FILE:{folder}/my%20conf/activemq.xml",
        "file://localhost{folder}/my%20conf/activemq.xml",
        "xbean:my conf/activemq.xml",
        "xbean:file:my%20conf/activemq.xml?validate=false",
    ],
)
def test_file_as_path_or_uri(source: str, tmp_path: Path) -> None:
    """As a path, a file URI, or the URI that starts a broker."""
    assert names(source.format(folder=tmp_path)) == ["queue:q"]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("file:///no/such.xml", "there is no such file"),
        ("xbean:no-such.xml", "there is no such file"),
        ("file://conf.example/activemq.xml", "is a file on conf.example; copy it here"),
        ("file://[::1:1/activemq.xml", "is not a valid URI: Invalid IPv6 URL"),
        ("https://conf.example/activemq.xml?raw=true", "is a file on the web; download it"),
        ("C:\\conf\\activemq.xml", "there is no such file"),
        ("/dev/zero", "is larger than 10 MiB"),
        ("/dev/null", "is not well-formed XML"),
        ("x" * 5000, "cannot be read: File name too long"),
    ],
)
def test_invalid_source_is_refused(source: str, message: str) -> None:
    """The message says what to do."""
    assert message in refused(source)


def test_existing_file_wins_over_a_uri() -> None:
    """A name that looks like a URI is a file if that file exists."""
    Path("tcp:conf.xml").write_bytes(XML)
    assert names("tcp:conf.xml") == ["queue:q"]


def test_pipe_is_read_to_its_end() -> None:
    """As in the process substitution of a shell, whatever the sizes of its writes."""
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


def test_silent_pipe_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """No process writes to it."""
    monkeypatch.setattr(importing, "_READ_TIMEOUT_S", 0.1)
    os.mkfifo("silent.xml")
    assert "no data for 0.1 s" in refused("silent.xml")


def test_closed_standard_input_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in ``redelivery import - <&-``."""
    monkeypatch.setattr(sys, "stdin", None)
    assert "standard input: is closed" in refused("-")


@pytest.mark.parametrize(
    "uri", ["tcp://a:1", "failover:(tcp://a?x=y,tcp://b)", "vm://localhost", "discovery:(static:b)"]
)
def test_client_transport_is_a_uri(uri: str) -> None:
    """It is accepted without a note."""
    assert "no transport" not in str(read_source(uri, PlaceholderValues()).notes)


@pytest.mark.parametrize("uri", ["mqtt://a:1883", "localhost:61616", "TCP://a:1", ""])
def test_other_scheme_is_noted(uri: str) -> None:
    """The connection factory accepts it, but the connection does not."""
    given = f"{uri.partition(':')[0]}:" if uri else "an empty scheme"
    assert f"{given} is not a transport of the JMS client" in str(read_source(uri, PlaceholderValues()).notes[0])


def test_uri_of_an_embedded_broker_is_noted() -> None:
    """The policies are in the file that it names, not in the URI."""
    notes = read_source("vm://localhost?brokerConfig=xbean:activemq.xml", PlaceholderValues()).notes
    assert "import the broker's file instead" in "\n".join(map(str, notes))


def test_ampersand_of_xml_separates_options() -> None:
    """It does so for the program that reads the XML file from which the URI was copied."""
    uri = "tcp://a:1?jms.redeliveryPolicy.maximumRedeliveries=5&amp;jms.redeliveryPolicy.redeliveryDelay=5000"
    imported = read_source(uri, PlaceholderValues())
    assert imported.section == {"redeliveryPolicy": {"maximumRedeliveries": 5, "redeliveryDelay": 5000}}
    assert "&amp;, which stands for &" in str(imported.notes)
