"""A request for several partitions of which some fail."""

from concurrent.futures import Future

from confluent_kafka import KafkaError, KafkaException

from kafka_redelivery.transport.admin.calls import answers_of


def test_what_fails_or_is_late_does_not_affect_the_others() -> None:
    """Each failure has its reason."""
    futures: dict[str, Future[int]] = {name: Future() for name in ("late", "leaderless", "good")}
    futures["leaderless"].set_exception(KafkaException(KafkaError(KafkaError.LEADER_NOT_AVAILABLE)))
    futures["good"].set_result(7)
    answers, errors = answers_of(futures, 0.05)
    assert answers == {"good": 7}
    assert {name: error.code() for name, error in errors.items()} == {
        "late": KafkaError._TIMED_OUT,
        "leaderless": KafkaError.LEADER_NOT_AVAILABLE,
    }
    assert errors["late"].str() == "no answer in 0.05 s"
