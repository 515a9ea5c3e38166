"""``REDELIVERY_...`` variables and ``--set`` flags that override the file."""

import pytest

from kafka_redelivery.topology.config.loading import read_overrides


def variable(name: str, value: str = "x") -> tuple[tuple[tuple[str | int, ...], object], ...]:
    """Path and value that one variable sets."""
    overrides, faults = read_overrides({name: value}, [])
    assert not faults
    return tuple((override.path, override.value) for override in overrides)


def problem(*, variables: dict[str, str] | None = None, flags: list[str] | None = None) -> tuple[str, str, str]:
    """Location, problem and fix of the only fault."""
    overrides, faults = read_overrides(variables or {}, flags or [])
    assert not overrides
    (fault,) = faults
    return fault.location, fault.problem, fault.fix


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
        ("REDELIVERY_DEPENDENCIES__BANK__MAX_OUTAGE", ("dependencies", "bank", "maxOutage")),
        ("REDELIVERY_SOURCES__0__VALUE__SCHEMAS__7", ("sources", 0, "value", "schemas", 7)),
    ],
)
def test_variables_name_settings(name: str, path: tuple[str | int, ...]) -> None:
    """Two underscores lead one level down; case and single underscores do not matter."""
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
        ("dependencies.bank.maxOutage=6h", ("dependencies", "bank", "maxOutage"), "6h"),
        ("dependencies.bank={maxOutage: 6h}", ("dependencies", "bank"), {"maxOutage": "6h"}),
        ("sources.0.topic=orders", ("sources", 0, "topic"), "orders"),
        ("group='quoted'", ("group",), "quoted"),
        ("limits={batch: 5}", ("limits",), {"batch": 5}),
    ],
)
def test_flags_name_settings(flag: str, path: tuple[str | int, ...], value: object) -> None:
    """Lists and mappings are parsed as YAML; text and client settings are taken literally."""
    (override,), faults = read_overrides({}, [flag])
    assert not faults
    assert (override.path, override.value) == (path, value)
    assert override.location == f"--set {flag.partition('=')[0]}"


@pytest.mark.parametrize(
    ("variables", "flags", "expected"),
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
        (
            {"REDELIVERY_GROUP__X": "x"},
            [],
            ("REDELIVERY_GROUP__X", "names a setting below group, which is a single value", "remove it"),
        ),
        (
            {"REDELIVERY_SOURCES__TOPIC": "x"},
            [],
            ("REDELIVERY_SOURCES__TOPIC", "has 'TOPIC' instead of the index of an item", "write an index, from 0 on"),
        ),
        ({}, ["limits.batch"], ("--set limits.batch", "is not NAME=VALUE", "write --set limits.batch=500")),
        ({}, ["=5"], ("--set ", "is not NAME=VALUE", "write --set limits.batch=500")),
        ({}, ["kafka.=5"], ("--set kafka.", "has an empty name", "write the name of a setting")),
        ({}, ["group=[a"], ("--set group", "has a value that is not valid YAML", "put the value in quotes")),
        (
            {},
            ["sources.99999.topic=x"],
            ("--set sources.99999.topic", "has '99999' instead of the index of an item", "write an index, from 0 on"),
        ),
    ],
)
def test_faults_of_overrides(variables: dict[str, str], flags: list[str], expected: tuple[str, str, str]) -> None:
    """Unknown names and malformed values are faults of the variable or flag."""
    assert problem(variables=variables, flags=flags) == expected


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
def test_ignored_variables(name: str, value: str) -> None:
    """Variables of the command line, and those that Kubernetes sets for a service called redelivery."""
    assert variable(name, value) == ()


@pytest.mark.parametrize(
    "name", ["REDELIVERY_METRICS_PORT", "REDELIVERY_METRIC__PORT", "REDELIVERY_METRIC__SERVICE_PORT"]
)
def test_a_mistyped_setting_is_not_mistaken_for_a_service(name: str) -> None:
    """Otherwise the setting would have no effect, without a message."""
    assert problem(variables={name: "9100"})[0] == name


def test_later_flags_take_precedence() -> None:
    """Flags are applied in their order."""
    overrides, _ = read_overrides({}, ["limits.batch=1", "limits.batch=2"])
    assert [override.value for override in overrides] == ["1", "2"]
