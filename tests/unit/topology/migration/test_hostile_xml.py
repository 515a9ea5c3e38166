"""XML from strangers ends in a clear error, in bounded time and memory."""

import tracemalloc
from time import perf_counter

import pytest

from topology.migration.classic_schema import NAMESPACE
from topology.migration.reading import read_broker_configuration
from topology.migration.result import MigrationError
from topology.migration.values import Values
from topology.migration.writing import written
from topology.migration.xml_tree import MOST_BYTES, MOST_ELEMENTS, MOST_LEVELS

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
    """The message of the refusal, which must come soon and without much memory."""
    tracemalloc.start()
    started = perf_counter()
    try:
        with pytest.raises(MigrationError) as caught:
            read_broker_configuration(content, "given.xml", Values())
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert perf_counter() - started < 30
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
def test_a_document_type_is_never_read(content: bytes) -> None:
    """No entity is expanded and nothing else is opened."""
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
def test_what_is_no_xml_is_refused(content: bytes) -> None:
    """With the place, where there is one."""
    assert "given.xml" in refused(content)


@pytest.mark.parametrize("encoding", ["no-such-encoding", "utf-7", "big5", "shift_jis", "idna", "hex"])
def test_an_encoding_that_is_not_known_is_refused(encoding: str) -> None:
    """However the parser says so."""
    refused(f'<?xml version="1.0" encoding="{encoding}"?><beans>+AHg-</beans>'.encode())


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "iso-8859-1", "us-ascii"])
def test_usual_encodings_are_read(encoding: str) -> None:
    """A byte order mark is no fault."""
    text = f'<?xml version="1.0" encoding="{encoding}"?><broker xmlns="{NAMESPACE}"/>'
    assert read_broker_configuration(text.encode(encoding), "given.xml", Values()).dialect == "activemq"


def test_a_hundred_megabytes_are_refused_at_once() -> None:
    """They are not even parsed."""
    assert f"larger than {MOST_BYTES // 2**20} MiB" in refused(b"<beans>" + b" " * (100 * 2**20) + b"</beans>")


def test_too_many_elements_are_refused() -> None:
    """Wide."""
    assert "more elements" in refused(b"<beans>" + b"<x/>" * (MOST_ELEMENTS + 1) + b"</beans>")


def test_too_many_levels_are_refused() -> None:
    """Deep: no recursion runs out of stack."""
    depth = MOST_LEVELS + 100_000
    assert "levels" in refused(b"<beans>" * depth + b"</beans>" * depth)


def test_too_many_attributes_are_refused() -> None:
    """Long."""
    attributes = b" ".join(b'a%d="1"' % number for number in range(100_000))
    assert "attributes" in refused(b"<beans " + attributes + b"/>")


def test_placeholders_that_hold_each_other_end() -> None:
    """A loop among properties does not run for ever, and does not grow for ever."""
    bean = "org.springframework.beans.factory.config.PropertyPlaceholderConfigurer"
    content = f"""<beans xmlns="http://www.springframework.org/schema/beans">
      <bean class="{bean}"><property name="properties"><value>a=${{b}}${{b}}
        b=${{a}}${{a}}</value></property></bean>
      <broker xmlns="http://activemq.apache.org/schema/core" brokerName="${{a}}"/></beans>"""
    started = perf_counter()
    assert "holds itself" in refused(content.encode())
    assert perf_counter() - started < 10


@pytest.mark.parametrize("root", ["project", "Configuration", "html"])
def test_another_document_is_told_as_such(root: str) -> None:
    """Neither of the two files."""
    assert "neither an activemq.xml" in refused(f"<{root}/>".encode())


def in_core(content: str) -> bytes:
    """A broker.xml with this in its core."""
    return (
        f'<configuration xmlns="urn:activemq"><core xmlns="urn:activemq:core">{content}</core></configuration>'.encode()
    )


def test_a_pattern_of_megabytes_is_refused() -> None:
    """A match of an address setting, many long ones, and the patterns of a plugin: they are not compiled."""
    settings = f'<address-settings><address-setting match="{"*" * 5_000_000}#"/></address-settings>'
    assert "longer than can be meant" in refused(in_core(settings))
    settings = "".join(f'<address-setting match="{"*." * words}#"/>' for words in range(1, 2000))
    assert "longer than can be meant" in refused(in_core(f"<address-settings>{settings}</address-settings>"))
    plugin = f'<plugins><discardingDLQBrokerPlugin dropAll="false" dropOnly="{"(a|b)" * 1_000_000}"/></plugins>'
    assert "longer than can be meant" in refused(f'<broker xmlns="{NAMESPACE}">{plugin}</broker>'.encode())


def test_more_settings_than_our_file_may_hold_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before they are written: that would take minutes."""
    for module in ("broker_xml", "writing"):
        monkeypatch.setattr(f"topology.migration.{module}.MOST_VALUES", 100)
    settings = "".join(f'<address-setting match="q{n}.#"/>' for n in range(60))
    assert "more address settings than our file may hold" in refused(
        in_core(f"<address-settings>{settings}</address-settings>")
    )
    entries = "".join(f'<policyEntry queue="q{n}"/>' for n in range(60))
    policies = f"<policyMap><policyEntries>{entries}</policyEntries></policyMap>"
    content = f'<broker xmlns="{NAMESPACE}"><destinationPolicy>{policies}</destinationPolicy></broker>'.encode()
    with pytest.raises(MigrationError, match="settings, and our file may hold"):
        written(read_broker_configuration(content, "given.xml", Values()))


def test_more_sources_than_our_file_may_hold_are_left_out() -> None:
    """With a note; the settings are written."""
    addresses = "".join(f'<address name="q{n}.x"/>' for n in range(40_000))
    imported = read_broker_configuration(in_core(f"<addresses>{addresses}</addresses>"), "given.xml", Values())
    assert "sources: []" in written(imported)
    assert "40000, too many for one file" in str(imported.notes[-1])


def test_an_encoding_of_pythons_own_is_refused() -> None:
    """No broker knows it."""
    text = f'<?xml version="1.0" encoding="unicode_escape"?><broker xmlns="{NAMESPACE}"/>'
    assert "none of XML's" in refused(text.encode())
