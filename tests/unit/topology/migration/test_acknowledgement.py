"""What a connection URI says about acknowledgement is carried over, or told."""

import pytest
import yaml

from topology.configuration import load_policies
from topology.migration.connection_uri import read_connection_uri
from topology.migration.result import Imported
from topology.migration.writing import written


def imported(options: str) -> Imported:
    """The import of a URI with these ``jms.`` options."""
    return read_connection_uri("tcp://broker:61616?" + "&".join(f"jms.{option}" for option in options.split()))


def told(found: Imported, name: str) -> list[str]:
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
def test_optimised_acknowledgement_is_mode_auto(options: str, section: dict[str, int]) -> None:
    """The only mode it acts in; time limit and prefetch come along."""
    found = imported(options)
    text = written(found)
    assert yaml.safe_load(text)["mode"] == "auto"
    assert yaml.safe_load(text)["acknowledgement"] == {"optimizeAcknowledge": True, **section}
    load_policies(text)
    assert "mode: auto" in told(found, "optimizeAcknowledge")[0]


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ("optimizeAcknowledge=no optimizeAcknowledgeTimeOut=500", "optimizeAcknowledgeTimeOut"),
        ("prefetchPolicy.all=50", "prefetchPolicy.all"),
        ("optimizeAcknowledge=true optimizedAckScheduledAckInterval=5", "optimizedAckScheduledAckInterval"),
        ("optimizeAcknowledge=true prefetchPolicy.topicPrefetch=5", "prefetchPolicy.topicPrefetch"),
    ],
)
def test_what_has_no_place_is_told(options: str, name: str) -> None:
    """With its reason."""
    [reason] = told(imported(options), name)
    assert "not carried over" in reason


def test_nothing_is_said_of_the_mode_where_the_uri_says_nothing() -> None:
    """A client chooses it for each session."""
    assert not {"mode", "acknowledgement"} & yaml.safe_load(written(imported("useAsyncSend=true"))).keys()
