"""The table of docs/other-systems.md is what the code recognises and removes."""

from pathlib import Path

from kafka_redelivery.dead_letters.foreign.systems import SYSTEMS, Place, System

_PAGE = Path(__file__).parents[3] / "docs/other-systems.md"
_PLACES = {
    Place.FIRST: "before the record's",
    Place.LAST: "behind the record's",
    Place.ALONE: "instead of the record's",
}


def table() -> str:
    """Return the table of all systems."""
    head = (
        "system",
        "`--system`",
        "recognised by",
        "its headers are",
        "removed",
        "not said",
        "recorded from",
    )
    rows = [head, ("---",) * len(head), *map(_row, SYSTEMS)]
    return "\n".join(f"| {' | '.join(each)} |" for each in rows)


def _row(system: System) -> tuple[str, ...]:
    marks = " or ".join(_names(each) for each in system.marks)
    proof = system.proof or "only documented"
    return (
        system.title,
        f"`{system.name}`",
        marks,
        _PLACES[system.place],
        _names(system.removed),
        system.lacks,
        proof,
    )


def _names(headers: tuple[str, ...]) -> str:
    return ", ".join(f"`{each}`" for each in headers)


def test_the_table_is_that_of_the_code() -> None:
    """After a change of a system, put this table into the page."""
    assert table() in _PAGE.read_text(encoding="utf-8"), "docs/other-systems.md needs this table:\n" + table()
