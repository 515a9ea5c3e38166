"""What says that a dependency of a handler is away: :class:`Unavailable`, listed exceptions, a missed deadline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Self

from kafka_redelivery.consumers.handlers.record import Unavailable
from kafka_redelivery.topology.policy.decision import Failure, FailureKind

if TYPE_CHECKING:
    from kafka_redelivery.topology.config.settings import HandlerSection


@dataclass(frozen=True, slots=True)
class Dependencies:
    """The dependencies that a source declares."""

    names: Mapping[str, int] = field(default_factory=dict)
    """Their names, each with its first pause in ms."""

    listed: Sequence[tuple[type[BaseException], str]] = ()
    """Exception classes that mean that a dependency is away, each with its name."""

    of_deadline: str = ""
    """The dependency that is away if a call misses its deadline; empty if that is the record's own failure."""

    by_key: bool = True
    """Whether a record may wait for a dependency alone, with those of its key. Otherwise all wait."""

    def of(self, error: BaseException, name: str, message: str) -> Failure | None:
        """Return the failure that an exception stands for if something is away, else ``None``.

        Args:
            error: what the handler raised.
            name: the name of its class.
            message: its text.
        """
        if isinstance(error, Unavailable):
            after = None if error.retry_after is None else round(error.retry_after.total_seconds() * 1000)
            pause_ms = self.names.get(error.dependency)
            if pause_ms is not None:
                by_key = error.key and self.by_key
                after = pause_ms if after is None and by_key else after
                return Failure(FailureKind.UNAVAILABLE, name, message, after, error.dependency, by_key)
            problem = f"the source does not declare the dependency {error.dependency!r}: add it to its `dependencies`"
            return Failure(FailureKind.UNAVAILABLE, name, problem)
        for kind, dependency in self.listed:
            if isinstance(error, kind):
                return Failure(FailureKind.UNAVAILABLE, name, message, None, dependency)
        return None

    def of_missed_deadline(self, failure: Failure) -> Failure:
        """Return what a missed deadline means: the failure itself, or that a dependency is away."""
        if not self.of_deadline:
            return failure
        return failure._replace(kind=FailureKind.UNAVAILABLE, dependency=self.of_deadline)


NO_DEPENDENCIES = Dependencies()


class Declared(NamedTuple):
    """The dependencies of a handler before the classes are loaded. It can go to another process."""

    names: Sequence[tuple[str, int]] = ()
    """Their names, each with its first pause in ms."""

    classes: Sequence[tuple[str, str]] = ()
    """Exception classes by name, each with its dependency."""

    of_deadline: str = ""

    @classmethod
    def by(cls, section: HandlerSection) -> Self:
        """Return what the sources of a handler declare."""
        return cls(
            [(name, round(dependency.first_pause.total_seconds() * 1000)) for name, dependency in section.dependencies],
            [(each, name) for name, dependency in section.dependencies for each in dependency.unavailable],
            next((name for name, dependency in section.dependencies if dependency.deadline), ""),
        )


NOTHING_DECLARED = Declared()
