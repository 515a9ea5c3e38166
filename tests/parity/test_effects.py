"""The effect of each trigger."""

from hypothesis import given
from hypothesis import strategies as st

from kafka_redelivery.topology.policy.acknowledgement import AcknowledgementMode
from tests.parity.effects import Dialect, Effect, Trigger, effect

MODES = st.sampled_from(AcknowledgementMode)


@given(MODES, st.sampled_from(Trigger), st.sampled_from(Dialect))
def test_every_trigger_has_an_effect_in_every_mode(
    mode: AcknowledgementMode, trigger: Trigger, dialect: Dialect
) -> None:
    """A record that is limited or delayed is redelivered."""
    found = effect(mode, trigger, dialect)
    assert isinstance(found, Effect)
    assert found.redelivered or not (found.limited or found.delayed)
    assert found.kept or not found.redelivered


@given(MODES, st.sampled_from([Trigger.ROLLBACK, Trigger.RAISED, Trigger.CLOSED]))
def test_artemis_counts_in_every_mode(mode: AcknowledgementMode, trigger: Trigger) -> None:
    """The broker counts deliveries, rather than the client."""
    assert effect(mode, trigger, Dialect.ARTEMIS).limited


def test_classic_redelivers_records_of_closed_client_sessions_without_limit() -> None:
    """Such a record never becomes a dead letter."""
    assert effect(AcknowledgementMode.CLIENT, Trigger.CLOSED) == Effect(redelivered=True)
