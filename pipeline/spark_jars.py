"""Jars that PySpark does not bring: sets of them, each pinned in a file, fetched once and verified at every use."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_GIVEN: Final = ("spark.jars", "spark.jars.packages")


@dataclass(frozen=True, slots=True)
class JarSet:
    """Jars that belong together."""

    what: str
    """They are, to people."""

    lock_file: Path
    sign: str
    """Begins the name of one of them: who gives a session that one gives it all of them."""

    def paths(self) -> tuple[Path, ...]:
        """Where they are; those that are missing are fetched.

        Raises:
            TransportError: one cannot be had, or is not the one that is pinned.
        """
        from transport.jars import kafka_jars  # noqa: PLC0415 - not needed where they are given

        return kafka_jars(lock_file=self.lock_file, what=self.what)


CONNECTOR: Final = JarSet("Spark's Kafka connector", Path(__file__).with_name("spark_jars.txt"), "spark-sql-kafka")
DELTA: Final = JarSet("Delta Lake", Path(__file__).with_name("delta_jars.txt"), "delta-spark")


def with_jars(settings: Mapping[str, str], wanted: Iterable[JarSet]) -> dict[str, str]:
    """The setting of Spark by which a session has jars: those that its settings name, and what is wanted beside them.

    Raises:
        TransportError: as :meth:`JarSet.paths`.
    """
    given = ",".join(settings.get(name, "") for name in _GIVEN)
    ours = [str(path) for each in wanted if each.sign not in given for path in each.paths()]
    named = settings.get("spark.jars", "")
    return {"spark.jars": ",".join([*filter(None, [named]), *ours])} if ours else {}
