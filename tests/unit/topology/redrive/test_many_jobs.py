"""The time that the jobs take grows with their number, not with its square."""

from typing import ClassVar

from kafka_redelivery.topology.redrive.job import JobLog
from tests.unit.topology.redrive.test_ownership import LETTERS, owned_by, records_of


class _Offset(int):
    """An offset that counts with how many others it is compared."""

    compared: ClassVar[int] = 0

    def __lt__(self, other: int) -> bool:
        _Offset.compared += 1
        return int(self) < int(other)

    def __gt__(self, other: int) -> bool:
        _Offset.compared += 1
        return int(self) > int(other)

    def __le__(self, other: int) -> bool:
        _Offset.compared += 1
        return int(self) <= int(other)

    def __ge__(self, other: int) -> bool:
        _Offset.compared += 1
        return int(self) >= int(other)


def _comparisons(jobs: int) -> int:
    """Return how many comparisons settle so many jobs, each of whose authors has not seen the last two."""
    log, offset = JobLog(), 0
    for number in range(jobs):
        for key, value in records_of(f"j{number}", max(0, offset - 4), {LETTERS: {number, number + 1}}):
            log.add(_Offset(offset), key, value)
            offset += 1
    _Offset.compared = 0
    log.settle()
    assert owned_by(log) == {"j0": {0, 1}} | {f"j{number}": {number + 1} for number in range(1, jobs)}
    return _Offset.compared


def test_four_times_the_jobs_take_about_four_times_as_long() -> None:
    """The console settles them every two seconds, and each `redelivery dlq` command once."""
    assert 0 < _comparisons(4_000) < 6 * _comparisons(1_000)
