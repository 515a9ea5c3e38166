"""In a run of all quick tests the cases of a function are one test, which names those that fail."""

import pytest

from tests.cases import together

SOURCE = """
import pytest

@pytest.fixture
def half(request):
    return request.param / 2

class TestNumbers:
    @pytest.mark.parametrize("number", [2, 3, 4, 5])
    def test_even(self, number):
        assert number % 2 == 0

@pytest.mark.parametrize("number", [2, 4])
def test_fixture(number, tmp_path):
    pass

@pytest.mark.parametrize("number", [2, 4, pytest.param(3, marks=pytest.mark.xfail)])
def test_mark(number):
    assert number % 2 == 0

@pytest.mark.parametrize("half", [2, 4], indirect=True)
def test_indirect(half):
    pass

@pytest.mark.parametrize("number", [2, 3])
def test_refusal(number):
    with pytest.raises(ValueError):
        int("x" * (number - 2) or "0")

def test_alone():
    pass
"""


def test_cases_that_need_nothing_else_are_together(pytester: pytest.Pytester) -> None:
    """A fixture and a mark belong to one case."""
    found = [item.name for item in together(pytester.getitems(SOURCE))]
    apart = ["test_fixture[2]", "test_fixture[4]", "test_mark", "test_mark[3]", "test_indirect[2]", "test_indirect[4]"]
    assert found == ["test_even", *apart, "test_refusal", "test_alone"]


@pytest.mark.parametrize(
    ("name", "said", "notes"),
    [
        ("test_even", "2 of 4 cases", ["test_even[3]", "test_even[5]"]),
        ("test_refusal", "1 of 2 cases", ["test_refusal[2]"]),
    ],
)
def test_each_case_that_fails_is_named(pytester: pytest.Pytester, name: str, said: str, notes: list[str]) -> None:
    """All cases run. That of a missing refusal is an exception of pytest's own kind."""
    (test,) = [item for item in together(pytester.getitems(SOURCE)) if item.name == name]
    with pytest.raises(BaseExceptionGroup, match=said) as caught:
        test.runtest()
    assert [error.__notes__ for error in caught.value.exceptions] == [[note] for note in notes]
