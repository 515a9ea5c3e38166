"""Variables and flags above the file."""

import pytest

from topology.overrides import read_overrides


def variable(name: str, value: str = "x") -> tuple[tuple[tuple[str | int, ...], object], ...]:
    """What one variable sets."""
    overrides, faults = read_overrides({name: value}, [])
    assert not faults
    return tuple((override.path, override.value) for override in overrides)


def problem(*, variables: dict[str, str] | None = None, flags: list[str] | None = None) -> tuple[str, str, str]:
    """Place, problem and mend of the one fault."""
    overrides, faults = read_overrides(variables or {}, flags or [])
    assert not overrides
    (fault,) = faults
    return fault.place, fault.problem, fault.mend


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("REDELIVERY_GROUP", ("group",)),
        ("REDELIVERY_LIMITS__BATCH", ("limits", "batch")),
        ("REDELIVERY_LIMITS__BUFFER_RECORDS", ("limits", "bufferRecords")),
        (
            "REDELIVERY_POLICYENTRY__REDELIVERYPOLICY__USEEXPONENTIALBACKOFF",
            ("policyEntry", "redeliveryPolicy", "useExponentialBackOff"),
        ),
        (
            "REDELIVERY_POLICY_ENTRY__REDELIVERY_POLICY__BACK_OFF_MULTIPLIER",
            ("policyEntry", "redeliveryPolicy", "backOffMultiplier"),
        ),
        ("REDELIVERY_KAFKA__BOOTSTRAP_SERVERS", ("kafka", "bootstrap.servers")),
        ("REDELIVERY_KAFKA__PRODUCER_LINGER_MS", ("kafka", "producer.linger.ms")),
        (
            "REDELIVERY_SOURCES__1__VALUE__REGISTRY__BASIC_AUTH_USER_INFO",
            ("sources", 1, "value", "registry", "basic.auth.user.info"),
        ),
        ("REDELIVERY_SOURCES__0__VALUE__SCHEMAS__7", ("sources", 0, "value", "schemas", 7)),
    ],
)
def test_variables_name_settings(name: str, path: tuple[str | int, ...]) -> None:
    """Two underscores lead down; case and single underscores do not matter."""
    assert variable(name) == ((path, "x"),)


@pytest.mark.parametrize(
    ("flag", "path", "value"),
    [
        ("limits.batch=500", ("limits", "batch"), "500"),
        ("kafka.bootstrap.servers=host:9092", ("kafka", "bootstrap.servers"), "host:9092"),
        ("kafka.sasl.password=a=b: #c", ("kafka", "sasl.password"), "a=b: #c"),
        ("handler.deadline=null", ("handler", "deadline"), None),
        ("handler.deadline=", ("handler", "deadline"), None),
        ("handler.notRetryable=[a:B, 'c:D']", ("handler", "notRetryable"), ["a:B", "c:D"]),
        ("sources.0.topic=orders", ("sources", 0, "topic"), "orders"),
        ("group='quoted'", ("group",), "quoted"),
        ("limits={batch: 5}", ("limits",), {"batch": 5}),
    ],
)
def test_flags_name_settings(flag: str, path: tuple[str | int, ...], value: object) -> None:
    """A flag's value is read as YAML, but text stays text; a client setting is taken to the letter."""
    (override,), faults = read_overrides({}, [flag])
    assert not faults
    assert (override.path, override.value) == (path, value)
    assert override.place == f"--set {flag.partition('=')[0]}"


@pytest.mark.parametrize(
    ("variables", "flags", "told"),
    [
        (
            {"REDELIVERY_GRUP": "x"},
            [],
            ("REDELIVERY_GRUP", "names no setting: 'GRUP' is not known", "did you mean group?"),
        ),
        (
            {"REDELIVERY_LIMITS__BATCHES": "x"},
            [],
            ("REDELIVERY_LIMITS__BATCHES", "names no setting: 'BATCHES' is not known in limits", "did you mean batch?"),
        ),
        ({"REDELIVERY_GROUP__X": "x"}, [], ("REDELIVERY_GROUP__X", "group has nothing below it", "remove it")),
        (
            {"REDELIVERY_SOURCES__TOPIC": "x"},
            [],
            ("REDELIVERY_SOURCES__TOPIC", "has 'TOPIC' where an item's number belongs", "count the items from 0"),
        ),
        ({}, ["limits.batch"], ("--set limits.batch", "has no value", "write --set limits.batch=500")),
        ({}, ["=5"], ("--set ", "has no value", "write --set limits.batch=500")),
        ({}, ["kafka.=5"], ("--set kafka.", "names nothing", "write the name of a setting")),
        ({}, ["group=[a"], ("--set group", "has a value that is not valid YAML", "put the text in quotes")),
        (
            {},
            ["sources.99999.topic=x"],
            ("--set sources.99999.topic", "has '99999' where an item's number belongs", "count the items from 0"),
        ),
    ],
)
def test_overrides_that_name_nothing(variables: dict[str, str], flags: list[str], told: tuple[str, str, str]) -> None:
    """A name that is no setting is a fault at the variable or flag."""
    assert problem(variables=variables, flags=flags) == told


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("REDELIVERY_CONFIG", "x"),
        ("REDELIVERY_JAVA", "x"),
        ("REDELIVERY_CACHE", "x"),
        ("REDELIVERY_DEBUG", "x"),
        ("REDELIVERY_LOG_FORMAT", "json"),
        ("REDELIVERY_LOG_LEVEL", "debug"),
        ("REDELIVERY_SERVICE_HOST", "10.0.0.1"),
        ("REDELIVERY_SERVICE_PORT", "9092"),
        ("REDELIVERY_PORT", "tcp://10.0.0.1:9092"),
        ("REDELIVERY_PORT_9092_TCP_ADDR", "10.0.0.1"),
        ("REDELIVERY_WORKER_SERVICE_PORT_HTTP", "80"),
        ("PATH", "x"),
    ],
)
def test_variables_that_are_no_settings(name: str, value: str) -> None:
    """The command's own variables, and what Kubernetes sets for a service of our name, are left alone."""
    assert variable(name, value) == ()


@pytest.mark.parametrize(
    "name", ["REDELIVERY_METRICS_PORT", "REDELIVERY_METRIC__PORT", "REDELIVERY_METRIC__SERVICE_PORT"]
)
def test_a_mistyped_setting_does_not_pass_for_a_service(name: str) -> None:
    """It would silently have no effect."""
    assert problem(variables={name: "9100"})[0] == name


def test_later_flags_win() -> None:
    """Flags are laid over each other in their order."""
    overrides, _ = read_overrides({}, ["limits.batch=1", "limits.batch=2"])
    assert [override.value for override in overrides] == ["1", "2"]
