from struct import pack

from kafka_redelivery.transport.admin.group_members import decode_assignment, member_name
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


def test_a_static_member_has_its_instance_name() -> None:
    """Without the UUID that the broker adds."""
    assert member_name("billing.w1-0f8fad5b-d9cb-469f-a165-70867728950e", "rdkafka") == "billing.w1"


def test_dynamic_members_keep_their_ids() -> None:
    """All have the same ``client.id``; without the UUID they would be taken for one member."""
    first, second = (f"rdkafka-0f8fad5b-d9cb-469f-a165-7086772895{n}e" for n in (0, 1))
    assert {member_name(each, "rdkafka") for each in (first, second)} == {first, second}
