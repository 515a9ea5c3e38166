"""Acknowledgement options of a connection URI are carried over or have a note."""

import pytest
import yaml

from kafka_redelivery.topology.config.loading import load_policies
from kafka_redelivery.topology.migration.connection_uri import read_connection_uri
from kafka_redelivery.topology.migration.conversion import to_yaml
from kafka_redelivery.topology.migration.result import Imported


def imported(options: str) -> Imported:
    """The import of a URI with these ``jms.`` options."""
    return read_connection_uri("tcp://broker:61616?" + "&".join(f"jms.{option}" for option in options.split()))


def notes_of(found: Imported, name: str) -> list[str]:
    """The notes about an option."""
    return [note.text for note in found.notes if note.text.startswith(f"jms.{name}=")]


@pytest.mark.parametrize(
    ("options", "section"),
    [
        ("optimizeAcknowledge=true", {}),
        ("OptimizeAcknowledge=TRUE optimizeAcknowledgeTimeOut=500", {"optimizeAcknowledgeTimeOut": 500}),
        ("optimizeAcknowledge=true optimizeAcknowledgeTimeOut=-1", {"optimizeAcknowledgeTimeOut": 0}),
        ("optimizeAcknowledge=true prefetchPolicy.all=50", {"prefetch": 50}),
        ("optimizeAcknowledge=true prefetchPolicy.all=50 prefetchPolicy.queuePrefetch=7", {"prefetch": 7}),
        ("optimizeAcknowledge=true prefetchPolicy.queuePrefetch=-7", {"prefetch": 0}),
    ],
)
def test_optimized_acknowledgement_is_mode_auto(options: str, section: dict[str, int]) -> None:
    """It has an effect only in this mode; timeout and prefetch are carried over with it."""
    found = imported(options)
    text = to_yaml(found)
    assert yaml.safe_load(text)["mode"] == "auto"
    assert yaml.safe_load(text)["acknowledgement"] == {"optimizeAcknowledge": True, **section}
    load_policies(text)
    assert "mode: auto" in notes_of(found, "optimizeAcknowledge")[0]


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ("optimizeAcknowledge=no optimizeAcknowledgeTimeOut=500", "optimizeAcknowledgeTimeOut"),
        ("prefetchPolicy.all=50", "prefetchPolicy.all"),
        ("optimizeAcknowledge=true optimizedAckScheduledAckInterval=5", "optimizedAckScheduledAckInterval"),
        ("optimizeAcknowledge=true prefetchPolicy.topicPrefetch=5", "prefetchPolicy.topicPrefetch"),
    ],
)
def test_options_without_effect_have_notes(options: str, name: str) -> None:
    """The note has a reason."""
    [reason] = notes_of(imported(options), name)
    assert "not carried over" in reason


def test_without_options_the_mode_is_not_set() -> None:
    """The client chooses it for each session."""
    assert not {"mode", "acknowledgement"} & yaml.safe_load(to_yaml(imported("useAsyncSend=true"))).keys()
