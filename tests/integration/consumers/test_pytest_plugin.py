"""The pytest plugin in a project of a user: what it imports, and its fixtures without a broker."""

import subprocess
import sys

import pytest

from tests.plugin import LOADED, PLUGIN

REGISTRY = 'registry: {url: "http://registry.invalid:8081"}'
FILES = {
    "redelivery.yaml": f"""
group: billing
kafka: {{bootstrap.servers: "localhost:9092"}}
sources:
  - topic: orders
    value: {{format: avro, {REGISTRY}}}
outputs:
  - topic: receipts
    value: {{format: avro, {REGISTRY}, reader: receipt.avsc, subject: receipts-value}}
handler: {{callable: "plugin_handlers:charge"}}
""",
    "plugin_handlers.py": """
from contextlib import contextmanager

closed = []


def charge(record, context):
    context.send("receipts", {"order": record.value["id"]})


class Shop:
    def __enter__(self):
        return self

    def __exit__(self, *_):
        closed.append(self)

    def __call__(self, record):
        raise ValueError
""",
    "order.avsc": '{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "string"}]}',
    "receipt.avsc": '{"type": "record", "name": "Receipt", "fields": [{"name": "order", "type": "string"}]}',
}


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    """A service, with its tests in a folder below it."""
    for name, text in FILES.items():
        (pytester.path / name).write_text(text)
    pytester.mkdir("checks")
    return pytester


def run(project: pytest.Pytester, test: str) -> pytest.RunResult:
    """Run a module of tests."""
    (project.path / "checks" / "test_it.py").write_text(test.replace("\n    ", "\n"))
    return project.runpytest_inprocess("--import-mode=importlib", *LOADED)


def test_it_imports_nothing_but_pytest() -> None:
    """So pytest starts as quickly as without it, in every project of the environment."""
    code = f"import pytest, sys; before = set(sys.modules); import {PLUGIN}; print(*sorted(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["kafka_redelivery", "kafka_redelivery.consumers", PLUGIN]


def test_a_session_that_uses_no_fixture_loads_nothing(project: pytest.Pytester) -> None:
    """No client of Kafka is imported, in a fresh interpreter."""
    test = "import sys\n\ndef test_it():\n    assert not {'confluent_kafka', 'pydantic', 'yaml'} & set(sys.modules)\n"
    (project.path / "test_it.py").write_text(test)
    project.runpytest_subprocess(*LOADED).assert_outcomes(passed=1)


def test_a_kit_of_a_configuration_that_names_a_registry(project: pytest.Pytester) -> None:
    """The schemas come from files, also that of a subject, and no registry is asked. The file is above the test."""
    test = """
    def test_it(redelivery_kit):
        kit = redelivery_kit(schemas={7: "order.avsc", 8: "receipt.avsc"})
        [delivery] = kit.deliver(bytes([0, 0, 0, 0, 7, 4]) + b"A1")
        assert delivery.failure is None
        assert delivery.outputs[0].value == bytes([0, 0, 0, 0, 8, 4]) + b"A1"

    def test_no_schema_of_a_subject(redelivery_kit):
        try:
            redelivery_kit("redelivery.yaml", schemas={7: "order.avsc"})
        except Exception as error:
            assert "no schema Receipt (for receipts-value)" in str(error), error
    """
    run(project, test).assert_outcomes(passed=2)


def test_a_missing_configuration_is_named_with_what_to_give_instead(project: pytest.Pytester) -> None:
    """Both fixtures look for it in the same places."""
    test = """
    import pytest

    def test_it(redelivery_kit):
        with pytest.raises(FileNotFoundError, match="there is no other.yaml in the folder of the test or above it;"):
            redelivery_kit("other.yaml")
    """
    run(project, test).assert_outcomes(passed=1)


def test_a_kit_of_a_function_or_class_is_closed_after_the_test(project: pytest.Pytester) -> None:
    """The arguments are those of HandlerKit; a handler class is entered and left."""
    test = """
    import plugin_handlers
    from kafka_redelivery import RedeliveryPolicy

    def test_it(redelivery_kit):
        kit = redelivery_kit(plugin_handlers.Shop, policy=RedeliveryPolicy(maximum_redeliveries=1))
        assert len(kit.deliver(b"A1")) == 2
        assert not plugin_handlers.closed

    def test_after_it():
        assert len(plugin_handlers.closed) == 1
    """
    project.makeini("[pytest]\npythonpath = .\n")
    run(project, test).assert_outcomes(passed=2)
