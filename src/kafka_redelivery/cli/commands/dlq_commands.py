"""All commands of `redelivery dlq`."""

from __future__ import annotations

from kafka_redelivery.cli.commands.dlq import app
from kafka_redelivery.cli.commands.dlq_letter import Edit, show
from kafka_redelivery.cli.commands.dlq_summary import Summarise

app.command()(show)
app.command()(Edit)
app.command(name="summary")(Summarise)
