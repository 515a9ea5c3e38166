"""Books invoices with Django's models. A worker imports this module, so it sets Django up first."""

import os
from collections.abc import Callable
from functools import wraps

import django
from django.db import close_old_connections

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "shop.settings")
django.setup()

from kafka_redelivery import Context, Record, Reject  # noqa: E402

from .models import Invoice  # noqa: E402


def with_fresh_connections(
    handle: Callable[[Record, Context], None],
) -> Callable[[Record, Context], None]:
    """Close connections that are broken or older than CONN_MAX_AGE, as Django does before and after a request.

    Without it a connection that the database has closed makes every later record fail. Each slot is a thread, and has
    a connection of its own.
    """

    @wraps(handle)
    def call(record: Record, context: Context) -> None:
        close_old_connections()
        try:
            handle(record, context)
        finally:
            close_old_connections()

    return call


@with_fresh_connections
def book(record: Record, context: Context) -> None:  # noqa: ARG001 - every handler of the project is called so
    """Book an invoice."""
    if record.value["cents"] <= 0:
        raise Reject("an invoice of nothing")
    Invoice.objects.get_or_create(message_id=record.message_id, defaults={"cents": record.value["cents"]})
