"""What the service of the outage knows about the records that it was asked about."""

from tests.bench.outage import Service


def test_what_the_service_counts() -> None:
    """A record that is answered behind a later one of its key was overtaken; the last attempt of each is kept."""
    with Service() as service:
        for path in ("/a/0/1", "/a/2/1", "/b/1/1"):
            assert service.asked(path)
        service.away = True
        assert not service.asked("/a/3/1")
        service.away = False
        for path in ("/a/4/1", "/a/3/2", "/b/5/1"):
            assert service.asked(path)
    assert service.done == {0, 1, 2, 3, 4, 5}
    assert service.overtaken() == 1
    assert service.attempts == {0: 1, 2: 1, 1: 1, 3: 2, 4: 1, 5: 1}
    assert len(service.refused) == 1
