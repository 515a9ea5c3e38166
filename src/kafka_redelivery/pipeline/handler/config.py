"""The configuration of a handler process, as the driver sends it to executors."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import cast

from kafka_redelivery.consumers.routes import Route, codecs
from kafka_redelivery.pipeline.spark.schema_files import SchemaFiles
from kafka_redelivery.topology.config.settings import HandlerSection, Settings


@dataclass(frozen=True, slots=True)
class HandlerConfig:
    """Settings, schemas and module search path of a handler process."""

    settings: Settings
    base: Path
    """The folder of the configuration file."""

    search_path: tuple[str, ...]
    """The driver's ``sys.path``."""

    log_level: int
    log_format: str
    schemas: SchemaFiles = field(default_factory=SchemaFiles)

    def on_this_machine(self) -> HandlerConfig:
        """Return the configuration for this executor, which may not have the driver's folders.

        The executor's own ``sys.path``, with what Spark shipped to it, comes before the driver's.

        Raises:
            OSError: the schemas cannot be written to a local folder.
        """
        path = tuple(dict.fromkeys((*sys.path, *self.search_path)))
        return replace(self, base=self.schemas.folder(self.base), search_path=path)

    @property
    def section(self) -> HandlerSection:
        """The section ``handler`` of the configuration."""
        return cast("HandlerSection", self.settings.handler)

    def routes(self) -> dict[str, tuple[Route, bool]]:
        """Return the route of each source and ready topic, and whether the topic is a ready topic.

        Raises:
            SerdeError: a schema cannot be loaded.
        """
        found: dict[str, tuple[Route, bool]] = {}
        for source in self.settings.sources:
            route = Route.of(self.settings, source.topic, *codecs(source, self.base))
            found |= {route.source: (route, False), route.ready: (route, True)}
        return found
