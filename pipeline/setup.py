"""What a process that handles records has to know."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import cast

from consumers.codecs import codecs
from consumers.routes import Route
from pipeline.schema_files import SchemaFiles
from topology.settings import HandlerSection, Settings


@dataclass(frozen=True, slots=True)
class Setup:
    """What such a process is for."""

    settings: Settings
    base: Path
    """The folder of the configuration."""

    search_path: tuple[str, ...]
    """Where modules are found."""

    log_level: int
    log_format: str
    schemas: SchemaFiles = field(default_factory=SchemaFiles)

    def here(self) -> Setup:
        """The same on this machine, which need not have the driver's folders: what was shipped to it comes first.

        Raises:
            OSError: the schemas cannot be put anywhere.
        """
        path = tuple(dict.fromkeys((*sys.path, *self.search_path)))
        return replace(self, base=self.schemas.folder(self.base), search_path=path)

    @property
    def section(self) -> HandlerSection:
        """The handler's."""
        return cast("HandlerSection", self.settings.handler)

    def routes(self) -> dict[str, tuple[Route, bool]]:
        """By topic: its route, and whether it is a ready topic.

        Raises:
            SerdeError: a schema cannot be had.
        """
        found: dict[str, tuple[Route, bool]] = {}
        for source in self.settings.sources:
            route = Route.of(self.settings, source.topic, *codecs(source, self.base))
            found |= {route.source: (route, False), route.ready: (route, True)}
        return found
