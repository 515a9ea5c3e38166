"""Codecs from the configuration: for each source, and for each output topic."""

from __future__ import annotations

from pathlib import Path

from serdes.build import SerdeSettings, build_codec
from serdes.codec import Codec
from topology.settings import CodecSection, SerdeSection


def codecs(section: CodecSection, base: Path) -> tuple[Codec, Codec]:
    """The codecs of key and value; paths are taken from ``base``, the configuration's folder.

    Raises:
        SerdeError: a schema cannot be read, or the settings contradict each other.
    """
    return _codec(section.key, base), _codec(section.value, base)


def _codec(section: SerdeSection, base: Path) -> Codec:
    return build_codec(
        SerdeSettings(
            format=section.format,
            schemas={number: base / path for number, path in section.schemas.items()},
            reader=None if section.reader is None else base / section.reader,
            write_id=section.write_id,
            registry=section.registry,
            subject=section.subject,
        )
    )
