"""The registry of the unit tests."""

from tests.unit.serdes.conftest import registry as registry  # noqa: PLC0414 - a fixture
