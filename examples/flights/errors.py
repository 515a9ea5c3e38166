"""Errors that end the demo before its report."""

from __future__ import annotations

from pathlib import Path


class DemoError(Exception):
    """Base of all errors of the demo. The message is for the person who runs it."""


class DataMissingError(DemoError):
    """The data package is not installed. Raised before anything is started."""

    def __init__(self, package: str) -> None:
        super().__init__(f"the data package {package} is not installed; ./dev demo installs it")
        self.package = package


class DirectoryInUseError(DemoError):
    """The directory of ``--keep`` is not empty. Raised before anything is started."""

    def __init__(self, directory: Path) -> None:
        super().__init__(f"{directory} is not empty; choose another directory, or remove it")
        self.directory = directory


class ChildEndedError(DemoError):
    """A worker, a scheduler or another command failed.

    ``code`` is its exit code, negative for a signal; ``log`` is its log file.
    """

    def __init__(self, name: str, code: int, log: Path, tail: str) -> None:
        how = f"by signal {-code}" if code < 0 else f"with exit code {code}"
        super().__init__(f"the {name} ended {how}; its log is {log}, which ends with:\n{tail}")
        self.name = name
        self.code = code
        self.log = log
        self.tail = tail


class ChildStuckError(DemoError):
    """A worker or scheduler did not end in time after SIGTERM and was killed."""

    def __init__(self, name: str, seconds: float, log: Path) -> None:
        super().__init__(f"the {name} did not end within {seconds:g} s of SIGTERM and was killed; its log is {log}")
        self.name = name
        self.log = log


class ChildSilentError(DemoError):
    """A process did not listen on its port in time."""

    def __init__(self, name: str, port: int, seconds: float, log: Path) -> None:
        super().__init__(f"the {name} did not listen on port {port} within {seconds:g} s; its log is {log}")
        self.name = name
        self.log = log


class BrokerEndedError(DemoError):
    """The embedded broker ended by itself."""

    def __init__(self) -> None:
        super().__init__("the embedded Kafka ended by itself; run again with --keep DIR to keep its log")


class KafkaAccessError(DemoError):
    """A read or write failed: no answer in time, or an error that the client does not retry."""

    def __init__(self, what: str, detail: str) -> None:
        super().__init__(f"{what}: {detail}")
        self.what = what
        self.detail = detail


class TopicInUseError(DemoError):
    """A topic already has records, which the check could not distinguish from those of the demo."""

    def __init__(self, topic: str) -> None:
        super().__init__(f"the topic {topic} is not empty; start with a new Kafka (docker compose down --volumes)")
        self.topic = topic
