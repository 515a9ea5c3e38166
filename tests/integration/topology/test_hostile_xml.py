"""Untrusted XML is refused with a clear error, in bounded time and memory."""

import tracemalloc
from time import process_time

import pytest

from kafka_redelivery.topology.migration.classic_beans import NAMESPACE
from kafka_redelivery.topology.migration.conversion import read_broker_configuration, to_yaml
from kafka_redelivery.topology.migration.placeholders import PlaceholderValues
from kafka_redelivery.topology.migration.result import MigrationError
from kafka_redelivery.topology.migration.xml_tree import MAX_BYTES, MAX_ELEMENTS, MAX_LEVELS

BOMB = b"""<?xml version="1.0"?>
<!DOCTYPE beans [
  <!ENTITY a "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa">
  <!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">
  <!ENTITY c "&b;&b;&b;&b;&b;&b;&b;&b;&b;&b;&b;&b;&b;&b;&b;&b;">
  <!ENTITY d "&c;&c;&c;&c;&c;&c;&c;&c;&c;&c;&c;&c;&c;&c;&c;&c;">
  <!ENTITY e "&d;&d;&d;&d;&d;&d;&d;&d;&d;&d;&d;&d;&d;&d;&d;&d;">
]>
<beans>&e;&e;&e;&e;&e;&e;&e;&e;</beans>"""


def refused(content: bytes) -> str:
    """The message of the error, raised within 60 seconds of processor time and 400 MiB of memory."""
    tracemalloc.start()
    started = process_time()
    try:
        with pytest.raises(MigrationError) as caught:
            read_broker_configuration(content, "given.xml", PlaceholderValues())
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert process_time() - started < 60
    assert peak < 400 * 2**20
    assert str(caught.value).startswith("given.xml")
    return str(caught.value)


@pytest.mark.parametrize(
    "content",
    [
        BOMB,
        b'<!DOCTYPE beans [<!ENTITY x SYSTEM "file:///etc/passwd">]><beans>&x;</beans>',
        b'<!DOCTYPE beans SYSTEM "http://127.0.0.1:1/beans.dtd"><beans/>',
        b'<!DOCTYPE beans [<!ENTITY % x SYSTEM "file:///etc/passwd"> %x;]><beans/>',
        b"<!DOCTYPE beans><beans/>",
    ],
)
def test_a_document_type_is_refused(content: bytes) -> None:
    """No entity is expanded and no other file is opened."""
    assert "document type or entities" in refused(content)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"   ",
        b"no xml at all",
        b"<beans>",
        b"<beans></broker>",
        b"<beans a='1' a='2'/>",
        b"<beans>\x00</beans>",
        b"\xff\xfe<beans/>",
        b"<beans>\xff</beans>",
        b"<beans>&undefined;</beans>",
        b"PK\x03\x04 a zip file",
        b'<?xml version="1.0" encoding="UTF-16"?><beans/>',
    ],
)
def test_malformed_xml_is_refused(content: bytes) -> None:
    """The error has the name of the file."""
    assert "given.xml" in refused(content)


@pytest.mark.parametrize("encoding", ["no-such-encoding", "utf-7", "big5", "shift_jis", "idna", "hex"])
def test_an_unknown_encoding_is_refused(encoding: str) -> None:
    """The parser has several ways to report it."""
    refused(f'<?xml version="1.0" encoding="{encoding}"?><beans>+AHg-</beans>'.encode())


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "iso-8859-1", "us-ascii"])
def test_usual_encodings_are_read(encoding: str) -> None:
    """A byte order mark is accepted."""
    text = f'<?xml version="1.0" encoding="{encoding}"?><broker xmlns="{NAMESPACE}"/>'
    assert read_broker_configuration(text.encode(encoding), "given.xml", PlaceholderValues()).dialect == "activemq"


def test_a_hundred_megabytes_are_refused() -> None:
    """They are not parsed."""
    assert f"larger than {MAX_BYTES // 2**20} MiB" in refused(b"<beans>" + b" " * (100 * 2**20) + b"</beans>")


def test_too_many_elements_are_refused() -> None:
    """A wide document."""
    assert "too many elements" in refused(b"<beans>" + b"<x/>" * (MAX_ELEMENTS + 1) + b"</beans>")


def test_too_many_levels_are_refused() -> None:
    """A deep document does not overflow the stack."""
    depth = MAX_LEVELS + 100_000
    assert "levels" in refused(b"<beans>" * depth + b"</beans>" * depth)


def test_too_many_attributes_are_refused() -> None:
    """An element with many attributes."""
    attributes = b" ".join(b'a%d="1"' % number for number in range(100_000))
    assert "attributes" in refused(b"<beans " + attributes + b"/>")


def spring(values: str, name: str) -> bytes:
    """An activemq.xml that defines properties."""
    bean = "org.springframework.beans.factory.config.PropertyPlaceholderConfigurer"
    return f"""<beans xmlns="http://www.springframework.org/schema/beans">
      <bean class="{bean}"><property name="properties"><value>{values}</value></property></bean>
      <broker xmlns="http://activemq.apache.org/schema/core" brokerName="{name}"/></beans>""".encode()


def test_circular_placeholders_are_refused() -> None:
    """Replacing them ends and needs little memory."""
    assert "contains the property itself" in refused(spring("a=${b}\nb=${a}", "${a}"))
    started = process_time()
    assert "grows by more than" in refused(spring("a=${b}${b}\nb=${a}${a}", "${a}"))
    assert process_time() - started < 20


def test_long_values_of_placeholders_are_refused() -> None:
    """A megabyte of placeholders does not become gigabytes, neither in one attribute nor in many."""
    long = "a=" + "x" * 10_000
    assert "grows by more than 1,000,000 characters" in refused(spring(long, "${a}" * 200_000))
    many = '<bean class="${a}"/>' * 10_000
    content = spring(long, "b").replace(b"</beans>", f"{many}</beans>".encode())
    assert "grows by more than 1,000,000 characters" in refused(content)
    values = PlaceholderValues({"a": "x" * 10_000})
    with pytest.raises(MigrationError, match="grows by more than 1,000,000 characters"):
        read_broker_configuration(in_core("${a}" * 200_000), "given.xml", values)


def test_an_escaped_placeholder_without_a_name_is_refused() -> None:
    """Artemis replaces placeholders once more after it has parsed the file."""
    setting = '<address-setting match="#"><dead-letter-address>&#36;{}</dead-letter-address></address-setting>'
    assert "has a placeholder that cannot be replaced" in refused(
        in_core(f"<address-settings>{setting}</address-settings>")
    )


@pytest.mark.parametrize("root", ["project", "Configuration", "html"])
def test_another_document_is_refused(root: str) -> None:
    """It is neither of the two files."""
    assert "neither an activemq.xml" in refused(f"<{root}/>".encode())


def in_core(content: str) -> bytes:
    """A broker.xml with this in its core."""
    return (
        f'<configuration xmlns="urn:activemq"><core xmlns="urn:activemq:core">{content}</core></configuration>'.encode()
    )


def test_a_pattern_of_half_a_megabyte_is_refused() -> None:
    """Long matches of address settings and long patterns of a plugin are not compiled."""
    settings = f'<address-settings><address-setting match="{"*" * 500_000}#"/></address-settings>'
    assert "is too long" in refused(in_core(settings))
    settings = "".join(f'<address-setting match="{"*." * words}#"/>' for words in range(1, 1000))
    assert "is too long" in refused(in_core(f"<address-settings>{settings}</address-settings>"))
    plugin = f'<plugins><discardingDLQBrokerPlugin dropAll="false" dropOnly="{"(a|b)" * 100_000}"/></plugins>'
    assert "is too long" in refused(f'<broker xmlns="{NAMESPACE}">{plugin}</broker>'.encode())


def test_too_many_settings_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are refused before they are written, which would take minutes."""
    for module in ("broker_xml", "conversion"):
        monkeypatch.setattr(f"kafka_redelivery.topology.migration.{module}.MAX_VALUES", 100)
    settings = "".join(f'<address-setting match="q{n}.#"/>' for n in range(60))
    assert "more address settings than our file may have" in refused(
        in_core(f"<address-settings>{settings}</address-settings>")
    )
    entries = "".join(f'<policyEntry queue="q{n}"/>' for n in range(60))
    policies = f"<policyMap><policyEntries>{entries}</policyEntries></policyMap>"
    content = f'<broker xmlns="{NAMESPACE}"><destinationPolicy>{policies}</destinationPolicy></broker>'.encode()
    with pytest.raises(MigrationError, match="settings, more than the 100 that our file may have"):
        to_yaml(read_broker_configuration(content, "given.xml", PlaceholderValues()))


def test_too_many_sources_are_left_out() -> None:
    """A note says so; the settings are written."""
    addresses = "".join(f'<address name="q{n}.x"/>' for n in range(40_000))
    imported = read_broker_configuration(
        in_core(f"<addresses>{addresses}</addresses>"), "given.xml", PlaceholderValues()
    )
    assert "sources: []" in to_yaml(imported)
    assert "40000 are too many for one file" in str(imported.notes[-1])


def test_an_encoding_that_only_python_has_is_refused() -> None:
    """No broker can read it."""
    text = f'<?xml version="1.0" encoding="unicode_escape"?><broker xmlns="{NAMESPACE}"/>'
    assert "XML does not have it" in refused(text.encode())


@pytest.mark.parametrize("parent", ["a", "b"])
def test_beans_that_inherit_much_are_refused(parent: str) -> None:
    """From themselves, or many of them from one with many properties."""
    policy = 'class="org.apache.activemq.RedeliveryPolicy"'
    properties = '<property name="queue" value="q"/>' * 300
    content = f'<bean id="a" {policy} parent="{parent}">{properties}</bean><bean id="b" {policy}>{properties}</bean>'
    children = f'<bean {policy} parent="b"/>' * 400
    assert "inherit too much" in refused(f"<beans>{content}{children}</beans>".encode())
