"""A worker and a scheduler that handle a source, and what they use meanwhile."""

from dataclasses import dataclass

from tests.bench.bed import Team
from tests.bench.options import Options
from tests.bench.profiled import program
from tests.bench.usage import Usage, usage
from tests.scenarios.running import Process


@dataclass(frozen=True, slots=True)
class Spent:
    """What a run has used."""

    worker: Usage
    scheduler: Usage
    broker_s: float
    scheduler_start_s: float

    def cpu_us(self, n: int, first_cpu_s: float) -> dict[str, float]:
        """Return CPU microseconds per record; ``first_cpu_s`` is what the worker used before the first record."""
        parts = {
            "worker": self.worker.cpu_s - first_cpu_s,
            "scheduler": self.scheduler.cpu_s - self.scheduler_start_s,
            "broker": self.broker_s,
        }
        found = {name: round(seconds * 1e6 / n, 1) for name, seconds in parts.items()}
        return found | {"all": round(sum(found.values()), 1)}


class Pair:
    """A scheduler and a worker, which handle the source from now on."""

    def __init__(self, team: Team, options: Options, *, join: bool = False) -> None:
        """Start both; with ``join``, wait until the worker has partitions, too."""
        self._team = team
        self.scheduler: Process = team.start("scheduler", program=program(options))
        self._scheduler_s = usage(self.scheduler.pid).cpu_s
        self._broker_s = team.bed.broker().cpu_s
        self.worker: Process = team.start("worker", program=program(options), wait=join)

    def spent(self) -> Spent:
        """Return what was used so far."""
        return Spent(
            worker=usage(self.worker.pid),
            scheduler=usage(self.scheduler.pid),
            broker_s=self._team.bed.broker().cpu_s - self._broker_s,
            scheduler_start_s=self._scheduler_s,
        )
