from struct import pack

from kafka_redelivery.transport.admin.group_members import decode_assignment
from kafka_redelivery.transport.protocols import Partition


def test_decode_assignment() -> None:
    """The partitions of all topics, without the assignor's own data."""
    data = pack(">hi", 3, 2) + pack(">h1si3i", 1, b"a", 3, 0, 7, 300) + pack(">h4si1i", 4, "ü.b".encode(), 1, 1)

    assert list(decode_assignment(data + pack(">i2s", 2, b"xx"))) == [
        *(Partition("a", number) for number in (0, 7, 300)),
        Partition("ü.b", 1),
    ]


def test_member_without_assignment_has_no_partitions() -> None:
    """Before the first assignment it is empty."""
    assert list(decode_assignment(b"")) == []
    assert list(decode_assignment(pack(">hii", 1, 0, -1))) == []
