"""Imports a recorded source and explains its destinations, as the two commands do."""

from typing import Any

from tests.parity.recordings import DATA
from topology.configuration import load_policies
from topology.explanation import explain
from topology.migration.connection_uri import is_connection_uri, read_connection_uri
from topology.migration.reading import read_broker_configuration
from topology.migration.result import Imported
from topology.migration.values import Values
from topology.migration.writing import written


class Migrated:
    """One source after its import."""

    def __init__(
        self, source: str | bytes, name: str = "activemq.xml", properties: dict[str, str] | None = None
    ) -> None:
        if isinstance(source, str) and is_connection_uri(source):
            self.imported: Imported = read_connection_uri(source)
        else:
            content = source.encode() if isinstance(source, str) else source
            self.imported = read_broker_configuration(content, name, Values(properties or {}))
        self.text = written(self.imported)
        self.settings, self._sources_known = load_policies(self.text)

    def explain(self, destination: str) -> dict[str, Any]:
        """One destination."""
        return explain(self.settings, destination, sources_known=self._sources_known)

    @property
    def notes(self) -> str:
        """All notes as one text."""
        return "\n".join(str(note) for note in self.imported.notes)


def migrated(folder: str, file: str, properties: dict[str, str] | None = None) -> Migrated:
    """A recorded file after its import."""
    return Migrated((DATA / "config_import" / folder / file).read_bytes(), file, properties)
