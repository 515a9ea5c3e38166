"""What the file says about acknowledgement, and what it may not say."""

import pytest

from kafka_redelivery.topology.config.loading import load_settings
from kafka_redelivery.topology.policy.acknowledgement import AcknowledgementMode, LazyAcknowledgement
from tests.unit.topology.config.test_loading_rules import HEAD, rules

HANDLER = "handler: {callable: 'billing:charge'"


@pytest.mark.parametrize(
    ("text", "place", "problem"),
    [
        (
            "acknowledgement: {optimizeAcknowledge: true}",
            "optimizeAcknowledge",
            "is true, but has an effect only in mode: auto",
        ),
        ("mode: dups_ok\nacknowledgement: {optimizeAcknowledge: true}", "optimizeAcknowledge", "the mode is dups_ok"),
        ("mode: auto\nacknowledgement: {timeout: 1s}", "timeout", "when its handler returns"),
        ("mode: client\nacknowledgement: {timeout: 0s}", "timeout", "is zero"),
    ],
)
def test_contradictions(text: str, place: str, problem: str) -> None:
    """Each is told at its place."""
    [(where, what)] = rules(f"{HEAD}{text}\n")
    assert where == f"acknowledgement.{place}"
    assert problem in what


@pytest.mark.parametrize("mode", ["client", "individual"])
@pytest.mark.parametrize(
    ("setting", "place"),
    [
        ("nonBlockingRedelivery: false", "nonBlockingRedelivery"),
        ("persistDeliveryCountBeforeDelivery: true", "persistDeliveryCountBeforeDelivery"),
        ("isolation: process", "isolation"),
        ("batch: {records: 10}", "batch"),
    ],
)
def test_what_the_handler_acknowledges_cannot_be_had_with_some_settings(mode: str, setting: str, place: str) -> None:
    """They would need to know what became of a record when its handler returns."""
    [(where, _)] = rules(f"{HEAD}{HANDLER}, {setting}}}\nmode: {mode}\n")
    assert where == f"handler.{place}"
    assert rules(f"{HEAD}{HANDLER}, {setting}}}\nmode: auto\n") == []


@pytest.mark.parametrize("mode", [mode for mode in AcknowledgementMode if mode is not AcknowledgementMode.TRANSACTED])
def test_a_journal_needs_a_transaction(mode: AcknowledgementMode) -> None:
    """Which none of these modes has."""
    [(where, what)] = rules(f"{HEAD}journal: true\nmode: {mode}\n")
    assert where == "journal"
    assert f"mode: {mode}" in what


@pytest.mark.parametrize(
    ("text", "lazy"),
    [
        ("", None),
        ("mode: auto", None),
        ("mode: client", None),
        (
            "mode: auto\nacknowledgement: {optimizeAcknowledge: true, prefetch: 0}",
            LazyAcknowledgement(AcknowledgementMode.AUTO, 0, 300),
        ),
        (
            "mode: dups_ok\nacknowledgement: {optimizeAcknowledgeTimeOut: 0}",
            LazyAcknowledgement(AcknowledgementMode.DUPS_OK, 1000, 0),
        ),
    ],
)
def test_who_is_lazy(text: str, lazy: LazyAcknowledgement | None) -> None:
    """``dups_ok`` always, ``auto`` if it is told to."""
    assert load_settings(f"{HEAD}{text}\n").lazy_acknowledgement() == lazy
