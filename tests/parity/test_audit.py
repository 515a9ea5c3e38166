"""The audits recognise duplicates as the strategies of the real ActiveMQ Classic do."""

from kafka_redelivery.topology.classic.audit import StrategyAudit
from kafka_redelivery.topology.classic.strategies import IndividualStrategy, SharedStrategy
from tests.parity.recordings import Case, each


def called(case: Case) -> list[bool | str]:
    """Return what our strategy and its audit answer to the recorded calls."""
    settings = case["settings"]
    kind = SharedStrategy if case["kind"] == "shared" else IndividualStrategy
    strategy = kind(
        enable_audit=settings.get("enableAudit", True),
        max_audit_depth=settings.get("maxAuditDepth", 2048),
        max_producers_to_audit=settings.get("maxProducersToAudit", 64),
    )
    audit = StrategyAudit(case["kind"] == "shared", strategy.max_audit_depth, strategy.max_producers_to_audit)
    answers: list[bool | str] = []
    for step in case["steps"]:
        producer, _, rest = step.removeprefix("!").partition(":")
        number, _, queue = rest.partition("@")
        known = audit.of(queue or "q")
        if step.startswith("!"):
            known.withdraw(producer, int(number))
            answers.append("rolled back")
        else:
            answers.append(not (strategy.enable_audit and known.is_duplicate(producer, int(number))))
    return answers


@each("classic_dlq_strategies.json", "strategy_calls")
def test_the_calls_of_one_strategy(case: Case) -> None:
    """Each call has the recorded answer."""
    assert called(case) == case["results"]
