"""All commands of `redelivery dlq`."""

from __future__ import annotations

from kafka_redelivery.cli.commands.dlq import app
from kafka_redelivery.cli.commands.dlq_edit import edit
from kafka_redelivery.cli.commands.dlq_export import export
from kafka_redelivery.cli.commands.dlq_import import import_letters
from kafka_redelivery.cli.commands.dlq_show import show
from kafka_redelivery.cli.commands.dlq_summary import summary

app.command()(show)
app.command()(edit)
app.command()(export)
app.command(name="import")(import_letters)
app.command()(summary)
