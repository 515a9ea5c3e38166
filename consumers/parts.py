"""What a worker is made of; put together in :mod:`consumers.wiring`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from queue import SimpleQueue

from consumers.assignment import Assignment
from consumers.committer import Committer
from consumers.health import Health
from consumers.lanes import Lanes
from consumers.observer import Observer
from consumers.session import Sessions
from consumers.slots import Slots
from consumers.unit import Unit
from topology.acknowledgement import AcknowledgementMode
from topology.decision import Failure
from topology.settings import AcknowledgementSection, HandlerSection, LimitsSection
from transport.protocols import Partition, Source


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of one worker."""

    reader: Source
    committer: Committer
    assignment: Assignment
    lanes: Lanes
    slots: Slots
    done: SimpleQueue[Unit | None]
    """What comes back from the slots; ``None`` tells that a write has ended, or that a session has something to say."""

    verdicts: Mapping[tuple[Partition, int], Failure]
    limits: LimitsSection
    handler: HandlerSection
    observer: Observer
    health: Health = field(default_factory=Health)
    mode: AcknowledgementMode = AcknowledgementMode.TRANSACTED
    acknowledgement: AcknowledgementSection = field(default_factory=AcknowledgementSection)
    sessions: Sessions = field(default_factory=Sessions)
