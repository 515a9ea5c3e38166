"""A shop whose web service handles four topics in its own process: `uvicorn service:api`.

Its handlers are sync (payments), async (parcels), in batches (clicks), and with an inbox in its database (orders).
"""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

from fastapi import FastAPI
from pydantic import BaseModel
from sqlalchemy import create_engine, func, select, text
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from kafka_redelivery import App, Batch, Context, Redeliver, Reject

engine = create_engine(os.environ.get("SHOP_DATABASE", "sqlite:///shop.db"))
service = App.from_config(Path(__file__).with_name("redelivery.yaml"))


class Amount(BaseModel):
    """An order, or its payment."""

    number: int
    cents: int


class Parcel(BaseModel):
    """A parcel is to be sent."""

    number: int
    packed: bool


class Click(BaseModel):
    """Someone has looked at an article."""

    number: int
    article: str


class Table(DeclarativeBase):
    """The tables of the shop."""


class Booking(Table):
    """An order in the books. A number may occur twice if an order is booked twice: only the inbox prevents it."""

    __tablename__ = "bookings"
    id: Mapped[int] = mapped_column(primary_key=True)
    number: Mapped[int]
    cents: Mapped[int]


@service.handler("payments", slots=4)
def receive(payment: Amount, context: Context) -> None:
    """Run in threads. The receipt is written together with the acknowledgement of the payment."""
    if payment.cents <= 0:
        raise Reject("nothing was paid")  # a dead letter at once
    context.send("receipts", payment)


@service.handler("parcels", slots=20, ordering="unordered")
async def ship(parcel: Parcel, context: Context) -> None:
    """Run on the event loop of FastAPI, where the pools of the service are."""
    if not parcel.packed and context.attempt == 1:
        raise Redeliver("not packed yet", after=timedelta(seconds=1))
    context.send("labels", parcel)


@service.handler("clicks", batch={"records": 500, "wait": "100ms"})
def count(batch: Batch[Click]) -> None:
    """Handle up to 500 clicks in one call. Each has an outcome of its own."""
    for record in batch:
        if record.value.article:
            batch.send(record, "views", record.value)
        else:
            batch.reject(record, "a click on nothing")


@service.handler("orders")
def book(order: Amount, context: Context) -> None:
    """Book in the database. A redelivery after a crash finds in the inbox that it has been done."""
    with Session(engine) as session, context.once(session) as first:
        if first:
            session.add(Booking(number=order.number, cents=order.cents))


def create_tables() -> None:
    """Create the tables that do not exist: those of the shop, and that of the inbox."""
    Table.metadata.create_all(engine)
    with engine.begin() as connection:
        for statement in Path(__file__).with_name("inbox.sql").read_text().split(";\n"):
            connection.execute(text(statement))


running = service.running(scheduler=True)


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[None]:
    """Handle records as long as the service runs. With the scheduler in it, it needs no other process."""
    create_tables()
    async with running:
        yield


api = FastAPI(lifespan=lifespan)
api.mount("/redelivery", running.asgi)  # metrics, healthz, readyz


@api.get("/bookings")
def bookings() -> dict[str, int]:
    """Say how many orders are booked."""
    with Session(engine) as session:
        return {"orders": session.scalar(select(func.count(Booking.id))) or 0}
