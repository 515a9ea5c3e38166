"""A login that the brokers refuse ends what has asked at once, though the client tries it again and again."""

import time
from collections.abc import Callable

import pytest

from kafka_redelivery.transport.admin.calls import AdminCalls
from kafka_redelivery.transport.admin.errors import NotAuthorisedError
from kafka_redelivery.transport.admin.topics import cluster_id, describe_topics
from kafka_redelivery.transport.client_config import admin_config
from tests.scenarios.users import Users

pytestmark = pytest.mark.kafka


@pytest.mark.parametrize(
    "ask", [AdminCalls.metadata, cluster_id, lambda calls: describe_topics(calls, ["any"])], ids=["topics", "id", "one"]
)
def test_it_is_not_waited_for(users: Users, ask: Callable[[AdminCalls], object]) -> None:
    """Whatever is asked first, and however long it may take."""
    kafka = users.secured.kafka | {"sasl.username": users.name("worker"), "sasl.password": "wrong"}
    calls, began = AdminCalls(admin_config(kafka), timeout_s=60), time.monotonic()
    with pytest.raises(NotAuthorisedError, match="cannot log in at"):
        ask(calls)
    assert time.monotonic() - began < 30
