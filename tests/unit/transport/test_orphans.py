from struct import pack

from transport.orphans import assigned
from transport.protocols import Partition


def test_an_assignment_is_read() -> None:
    """The partitions of all its topics; what the assignor has added for itself is no part of it."""
    data = pack(">hi", 3, 2) + pack(">h1si3i", 1, b"a", 3, 0, 7, 300) + pack(">h4si1i", 4, "ü.b".encode(), 1, 1)

    assert list(assigned(data + pack(">i2s", 2, b"xx"))) == [
        *(Partition("a", number) for number in (0, 7, 300)),
        Partition("ü.b", 1),
    ]


def test_a_member_without_an_assignment_has_nothing() -> None:
    """As long as a group has not shared its partitions out, what its members have is empty."""
    assert list(assigned(b"")) == []
    assert list(assigned(pack(">hii", 1, 0, -1))) == []
