"""What differs between two texts, line by line, also if a hostile record has a million of them."""

import re
import time

from hypothesis import given
from hypothesis import strategies as st

from kafka_redelivery.dead_letters.differences import line_diff

_LINES = st.lists(st.sampled_from(["a", "b", "@@ -1 +1 @@"]), max_size=12)
_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")


def test_a_diff_of_very_many_lines_is_quick() -> None:
    """A change is shown with its place; of lines that all differ, all of both texts."""
    before = [str(number * number % 127) for number in range(100_000)]
    middle = len(before) // 2
    around = [f" {each}" for each in before[middle - 3 : middle + 3]]
    began = time.monotonic()
    found = list(line_diff(before, [*before[:middle], "new", *before[middle:]], ("old", "new")))
    assert found[:3] == ["--- old", "+++ new", f"@@ -{middle - 2},6 +{middle - 2},7 @@"]
    assert found[3:] == [*around[:3], "+new", *around[3:]]
    found = list(line_diff(before, ["first", *before[1:-1], "last"], ("old", "new")))
    assert found[2:4] == ["@@ -1,100000 +1,100000 @@", "-0"]
    assert found[-1] == "+last"
    assert len(found) == 3 + 200_000
    assert time.monotonic() - began < 10


@given(_LINES, _LINES, _LINES, _LINES)
def test_a_diff_turns_one_text_into_the_other(start: list[str], old: list[str], new: list[str], end: list[str]) -> None:
    """Each line is at the place that the diff says; equal texts have none."""
    before, after = [*start, *old, *end], [*start, *new, *end]
    found = list(line_diff(before, after, ("old", "new")))
    assert (before == after) == (not found)
    made, at = [], 0
    for line in found[2:]:
        place = _HUNK.fullmatch(line)
        if place is not None:
            first = int(place[1]) - (place[2] != "0")
            made += before[at:first]
            at = first
            assert len(made) == int(place[3]) - (place[4] != "0")
        elif line[0] == "+":
            made.append(line[1:])
        else:
            assert before[at] == line[1:]
            made += before[at : at + 1] if line[0] == " " else []
            at += 1
    assert made + before[at:] == after
