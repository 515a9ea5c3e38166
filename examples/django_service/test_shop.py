"""Tests of the handler with a database, without Kafka."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from django.core.management import call_command
from django.db import connection

from kafka_redelivery import Ack, DeadLetter, HandlerKit

MakeKit = Callable[..., HandlerKit]


@pytest.fixture
def kit(redelivery_kit: MakeKit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HandlerKit]:
    """The handler of the configuration, with an empty database."""
    monkeypatch.setenv("SHOP_DATABASE", str(tmp_path / "shop.sqlite3"))
    found = redelivery_kit()  # imports the handler, which sets Django up
    connection.settings_dict["NAME"] = str(tmp_path / "shop.sqlite3")
    call_command("migrate", run_syncdb=True, verbosity=0)
    yield found
    connection.close()


def booked() -> list[int]:
    """What the database has."""
    from shop.models import Invoice  # type: ignore[import-not-found]  # noqa: PLC0415 - Django must be set up

    return list(Invoice.objects.values_list("cents", flat=True))


def test_an_invoice_is_booked_once(kit: HandlerKit) -> None:
    """Delivered twice it is the same invoice: the kit gives both the same message id."""
    for _ in range(2):
        assert kit.deliver({"cents": 5})[-1].decision == Ack()
    assert booked() == [5]


def test_an_old_connection_is_closed_before_the_next_record(kit: HandlerKit) -> None:
    """As around a request of Django."""
    kit.deliver({"cents": 5})
    old, connection.close_at = connection.connection, 0.0  # older than CONN_MAX_AGE
    assert kit.deliver({"cents": 5})[-1].decision == Ack()
    assert connection.connection is not old


def test_an_invoice_of_nothing_is_a_dead_letter(kit: HandlerKit) -> None:
    """The handler rejects it."""
    assert isinstance(kit.deliver({"cents": 0})[-1].decision, DeadLetter)
