"""The fixtures of the pytest plugin run a service on a real Kafka, in a project of a user."""

import re
from pathlib import Path

import pytest

from tests.plugin import LOADED

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

PAGE = (Path(__file__).parents[3] / "docs" / "testing.md").read_text()

INI = "[pytest]\nfilterwarnings = error\npythonpath = .\n"

SHOP = """
from kafka_redelivery import App, Context, Record, RedeliveryPolicy, Reject

app = App(
    group="shop",
    kafka={"bootstrap.servers": "kafka.invalid:9093", "security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN",
           "sasl.username": "shop", "sasl.password": "secret"},
    outputs=[{"topic": "bills", "value": {"format": "json"}}],
    policy=RedeliveryPolicy(maximum_redeliveries=1, initial_redelivery_delay=100),
    topics={"replication_factor": 3},
    metrics={"port": 9404},
    instance="shop-1",
)
calls = []


@app.handler("orders", format="json")
async def charge(record: Record, context: Context) -> None:
    calls.append(context.attempt)
    if record.value == "bad":
        raise Reject("no order")
    if record.value == "slow" and context.attempt == 1:
        raise ConnectionError("the bank does not answer")
    context.send("bills", {"of": record.value}, key=record.key, headers={"attempt": b"%d" % context.attempt})
"""

TESTS = """
import shop


def test_an_app(redelivery_running):
    service = redelivery_running(shop.app)
    service.produce("orders", "quick", key=b"anna", headers={"from": b"web"})
    service.produce("orders", "slow", partition=1)
    service.produce("orders", "bad")
    service.produce("orders", b"{")
    service.settle()
    bills = {bill.value["of"]: bill for bill in service.outputs("bills")}
    assert (bills["quick"].key, bills["quick"].headers) == (b"anna", {"attempt": b"1"})
    assert bills["slow"].headers == {"attempt": b"2"}
    rejected, broken = sorted(service.dead_letters(), key=lambda letter: letter.reason)
    assert (rejected.reason, rejected.message, rejected.value) == ("rejected", "no order", "bad")
    assert rejected.deliveries == 1
    assert (broken.reason, broken.value) == ("undecodable", b"{")
    assert broken.message_id.startswith("orders-")
    assert service.running.health.ready().ok


def test_the_next_test_finds_empty_topics(redelivery_running, monkeypatch):
    monkeypatch.setattr(shop, "calls", [])
    service = redelivery_running(shop.app)
    service.settle()
    assert (service.outputs("bills"), service.dead_letters("orders"), shop.calls) == ([], [], [])
"""

MORE_TESTS = """
import time

import pytest
import shop


def test_what_is_not_settled_is_named(redelivery_running, monkeypatch):
    monkeypatch.setattr(shop, "calls", [])
    late = ["policyEntry.redeliveryPolicy.initialRedeliveryDelay=300000"]
    service = redelivery_running(shop.app, overrides=late)
    service.produce("orders", "slow")
    while not shop.calls:
        time.sleep(0.1)
    with pytest.raises(TimeoutError) as raised:
        service.settle(within_s=3)
    assert "not settled within 3 s: shop.retry.5m has 1 record that is not finished, due in 2" in str(raised.value)
    assert "(ConnectionError)" in str(raised.value)


def test_two_services_share_topics(redelivery_running):
    first = redelivery_running(shop.app)
    first.produce("orders", "quick")
    first.settle()
    assert len(redelivery_running(shop.app).outputs("bills")) == 1
"""


def test_an_app_and_the_page_about_tests(pytester: pytest.Pytester) -> None:
    """An App's login, name, port and replicas are those of another cluster.

    docs/testing.md shows a test with a running service. All have one Kafka.
    """
    blocks = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    [handler] = [each for each in blocks if each.startswith("# handlers.py")]
    [with_service] = [each for each in blocks if "redelivery_running" in each]
    [configuration], [order] = (re.findall(rf"```{of}\n(.*?)```", PAGE, re.DOTALL) for of in ("yaml", "json"))
    pytester.makepyfile(shop=SHOP, test_shop=TESTS, handlers=handler, test_service=with_service)
    for name, text in {"redelivery.yaml": configuration, "order.avsc": order}.items():
        (pytester.path / name).write_text(text)
    pytester.makeini(INI)
    pytester.runpytest_subprocess("--import-mode=importlib", *LOADED).assert_outcomes(passed=3)


def test_two_services_and_what_is_not_settled(pytester: pytest.Pytester) -> None:
    """Services of one test share topics, and a test learns what keeps a record waiting."""
    pytester.makepyfile(shop=SHOP, test_shop=MORE_TESTS)
    pytester.makeini(INI)
    pytester.runpytest_subprocess("--import-mode=importlib", *LOADED).assert_outcomes(passed=2)


def test_each_process_of_xdist_has_a_kafka(pytester: pytest.Pytester) -> None:
    """So tests of two processes do not meet in the topics of a service."""
    test = """
    import os

    def test_it(redelivery_kafka):
        redelivery_kafka.create_topics({os.environ["PYTEST_XDIST_WORKER"]: 1})
        print("at", redelivery_kafka.bootstrap_servers)
    """
    pytester.makepyfile(test)
    done = pytester.runpytest_subprocess(*LOADED, "-n", "2", "--dist", "each", "-rP")
    done.assert_outcomes(passed=2)
    assert len({line for line in done.outlines if line.startswith("at ")}) == 2
