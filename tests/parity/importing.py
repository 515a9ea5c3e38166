"""Imports a recorded source and explains its destinations, as `redelivery import` and `redelivery explain` do."""

from typing import Any

from kafka_redelivery.topology.config.loading import load_policies
from kafka_redelivery.topology.explanation import explain
from kafka_redelivery.topology.migration.connection_uri import is_connection_uri, read_connection_uri
from kafka_redelivery.topology.migration.conversion import read_broker_configuration, to_yaml
from kafka_redelivery.topology.migration.placeholders import PlaceholderValues
from kafka_redelivery.topology.migration.result import Imported
from tests.parity.recordings import DATA


class Migrated:
    """The result of importing one source."""

    def __init__(
        self, source: str | bytes, name: str = "activemq.xml", properties: dict[str, str] | None = None
    ) -> None:
        if isinstance(source, str) and is_connection_uri(source):
            self.imported: Imported = read_connection_uri(source)
        else:
            content = source.encode() if isinstance(source, str) else source
            self.imported = read_broker_configuration(content, name, PlaceholderValues(properties or {}))
        self.text = to_yaml(self.imported)
        self.settings, self._sources_known = load_policies(self.text)

    def explain(self, destination: str) -> dict[str, Any]:
        """Explain one destination."""
        return explain(self.settings, destination, sources_known=self._sources_known)

    @property
    def notes(self) -> str:
        """All notes of the import as one text."""
        return "\n".join(str(note) for note in self.imported.notes)


def migrated(folder: str, file: str, properties: dict[str, str] | None = None) -> Migrated:
    """Import a recorded file."""
    return Migrated((DATA / "config_import" / folder / file).read_bytes(), file, properties)
