"""What the library raises for people: the message says what happened and how to fix it."""

from __future__ import annotations

from kafka_redelivery.consumers.errors import ConsumersError
from kafka_redelivery.serdes.errors import SerdeError
from kafka_redelivery.topology.errors import TopologyError
from kafka_redelivery.transport.errors import TransportError

LIBRARY_ERRORS = (ConsumersError, TransportError, TopologyError, SerdeError)
