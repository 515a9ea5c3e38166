"""`redelivery config`, without a cluster."""

import json
import sys
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner, Result

from kafka_redelivery.cli.commands.config import shown
from kafka_redelivery.cli.main import app
from kafka_redelivery.topology import exit_codes
from kafka_redelivery.topology.config.settings import Settings, json_schema
from kafka_redelivery.topology.urls import HIDDEN
from kafka_redelivery.transport.clients.setting_check import SUGGESTED, refusal

GOOD = "group: billing\nkafka: {bootstrap.servers: x, sasl.password: hunter2}\nsources: [{topic: orders}]\n"
BAD = GOOD + "mode: fast\njournal: 5\n"


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run each test in a folder of its own, without variables of ``redelivery``."""
    monkeypatch.chdir(tmp_path)
    for name in ("REDELIVERY_CONFIG", "REDELIVERY_DEBUG"):
        monkeypatch.delenv(name, raising=False)


def run(*arguments: str, text: str | None = None) -> Result:
    """Run the command on a ``redelivery.yaml`` with this text."""
    if text is not None:
        Path("redelivery.yaml").write_text(text, encoding="utf-8")
    return CliRunner().invoke(app, arguments)


def test_check_of_a_valid_file() -> None:
    """One line, exit code 0."""
    result = run("config", "check", text=GOOD)
    assert (result.exit_code, result.stdout, result.stderr) == (exit_codes.OK, "redelivery.yaml: no faults\n", "")


def test_check_warns_of_a_password_that_can_be_read() -> None:
    """The configuration is valid: the exit code is 0."""
    text = GOOD.replace("{bootstrap", "{security.protocol: SASL_PLAINTEXT, sasl.mechanism: PLAIN, bootstrap")
    result = run("config", "check", text=text)
    assert result.exit_code == exit_codes.OK
    assert "warn: kafka.security.protocol: is SASL_PLAINTEXT with PLAIN" in result.stdout
    assert "the password crosses the network unencrypted" in result.stdout
    assert "hunter2" not in result.stdout


def test_check_of_an_invalid_file() -> None:
    """One line per fault on standard error, nothing on standard output, no traceback."""
    result = run("config", "check", text=BAD)
    assert result.exit_code == exit_codes.CONFIGURATION
    assert result.stdout == ""
    lines = result.stderr.splitlines()
    assert lines[0] == "error: the configuration has 2 faults"
    assert [line.split()[:2] for line in lines[1:]] == [
        ["redelivery.yaml:4:7", "mode:"],
        ["redelivery.yaml:5:10", "journal:"],
    ]


def test_check_as_json() -> None:
    """One object, with the same exit codes."""
    good, bad = run("config", "check", "--json", text=GOOD), run("config", "check", "--json", text=BAD)
    assert (good.exit_code, json.loads(good.stdout)) == (exit_codes.OK, {"ok": True, "faults": [], "warnings": []})
    assert bad.exit_code == exit_codes.CONFIGURATION
    found = json.loads(bad.stdout)
    assert (found["ok"], found["error"], found["message"]) == (False, "configuration", "the configuration has 2 faults")
    assert bad.stderr == ""
    assert [set(fault) for fault in found["faults"]] == [{"location", "problem", "fix"}] * 2


def test_flag_overrides_variable_and_variable_overrides_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """``show`` prints the effective settings."""
    monkeypatch.setenv("REDELIVERY_LIMITS__BATCH", "10")
    monkeypatch.setenv("REDELIVERY_MODE", "auto")
    result = run("config", "show", "--set", "limits.batch=20", text=GOOD)
    shown = yaml.safe_load(result.stdout)
    assert (shown["limits"]["batch"], shown["mode"], shown["group"]) == (20, "auto", "billing")


def test_show_hides_secrets() -> None:
    """In YAML and in JSON."""
    for flags in ([], ["--json"]):
        result = run("config", "show", *flags, text=GOOD)
        assert result.exit_code == exit_codes.OK
        assert "hunter2" not in result.output


def test_output_of_show_is_a_valid_configuration() -> None:
    """It can be used as the configuration file."""
    shown = run("config", "show", text=GOOD).stdout
    assert run("config", "check", text=shown).exit_code == exit_codes.OK


def test_schema() -> None:
    """It prints the JSON Schema and nothing else."""
    assert json.loads(run("config", "schema").stdout) == json_schema()


def test_environment_names_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """``REDELIVERY_CONFIG`` is the default of ``--config``."""
    Path("other.yaml").write_text(GOOD, encoding="utf-8")
    monkeypatch.setenv("REDELIVERY_CONFIG", "other.yaml")
    assert run("config", "check").stdout == "other.yaml: no faults\n"


@pytest.mark.parametrize("kind", ["missing", "folder", "bytes"])
def test_unreadable_file(kind: str) -> None:
    """One fault names the file."""
    if kind == "folder":
        Path("f.yaml").mkdir()
    if kind == "bytes":
        Path("f.yaml").write_bytes(b"group: \xff\xfe")
    result = run("config", "check", "--config", "f.yaml")
    assert result.exit_code == exit_codes.CONFIGURATION
    assert result.stderr.splitlines()[0] == "error: the configuration has 1 fault"
    assert result.stderr.splitlines()[1].startswith("  f.yaml: ")
    assert len(result.stderr.splitlines()) == 2


@pytest.mark.parametrize(
    ("setting", "fault"),
    [
        (
            "kafka.bootstrap.server: x",
            "kafka.kafka.bootstrap.server: is not a setting of the Kafka client; did you mean ",
        ),
        (
            "session.timeout: 6000",
            "session.timeout: is not a setting of the Kafka client; did you mean session.timeout.ms?",
        ),
        ("producer.linger.mss: 2", "mss: is not a setting of the Kafka client; did you mean producer.linger.ms?"),
        (
            "socket.timeout.ms: soon",
            "socket.timeout.ms: is refused by the Kafka client: Invalid value for configuration",
        ),
        ("oauth.cb: 'shop:token'", "oauth.cb: is not a setting of the Kafka client; did you mean oauth_cb?"),
        ("session.timeout.ms: -5", "session.timeout.ms: is refused by the Kafka client: Configuration property"),
    ],
)
def test_check_asks_the_client_about_its_settings(setting: str, fault: str) -> None:
    """A misspelled name has a suggestion; each fault has its location, and no broker is needed."""
    result = run("config", "check", text=GOOD.replace("sasl.password: hunter2", setting))
    assert result.exit_code == exit_codes.CONFIGURATION
    [line] = result.stderr.splitlines()[1:]
    assert line.startswith("  redelivery.yaml:2:")
    assert fault in line


def test_settings_of_a_working_configuration_pass() -> None:
    """Also those that make sense together only, and those of the Java client."""
    settings = (
        "bootstrap.servers: x, security.protocol: SASL_SSL, sasl.mechanism: PLAIN, sasl.username: u, sasl.password: p, "
        "ssl.ca.location: probe, producer.linger.ms: 5, consumer.fetch.min.bytes: 1, log_level: 0, "
        "spark.fetch.max.wait.ms: 5, socket.keepalive.enable: true, group.protocol: consumer, "
        "group.remote.assignor: uniform"
    )
    text = GOOD.replace("bootstrap.servers: x, sasl.password: hunter2", settings)
    assert run("config", "check", text=text).stdout == "redelivery.yaml: no faults\n"


def test_check_imports_the_function_for_tokens(tmp_path: Path) -> None:
    """It is looked for beside the file. One that is installed elsewhere only is left to the processes."""
    tokens = "security.protocol: SASL_SSL, sasl.mechanism: OAUTHBEARER, oauth_cb: 'shop_tokens:get'"
    text = GOOD.replace("sasl.password: hunter2", tokens)
    assert run("config", "check", text=text).exit_code == exit_codes.OK
    (tmp_path / "shop_tokens.py").write_text("def got(config): ...\n", encoding="utf-8")
    found = run("config", "check", text=text)
    assert found.exit_code == exit_codes.CONFIGURATION
    assert "kafka.oauth_cb: shop_tokens:get: module shop_tokens has no get; did you mean got?" in found.stderr


def test_the_client_knows_every_suggested_setting() -> None:
    """A suggestion that is refused would not help."""
    values = {name: refusal(name, "1") for name in SUGGESTED if name != "bootstrap.servers"}
    assert [name for name, problem in values.items() if problem and problem.startswith("No such")] == []


def test_check_reads_schema_files(tmp_path: Path) -> None:
    """A schema file that is missing or wrong is a fault of the source or output that names it."""
    serde = "value: {format: avro, schemas: {1: order.avsc}, writeId: 1}"
    text = GOOD.replace("{topic: orders}", f"{{topic: orders, {serde}}}") + f"outputs: [{{topic: totals, {serde}}}]\n"
    missing = run("config", "check", text=text)
    assert missing.exit_code == exit_codes.CONFIGURATION
    lines = missing.stderr.splitlines()[1:]
    assert [line.split()[1] for line in lines] == ["sources.0.value:", "outputs.0.value:"]
    assert all("order.avsc: cannot be read: No such file or directory" in line for line in lines)
    (tmp_path / "order.avsc").write_text("{}", encoding="utf-8")
    assert run("config", "check", text=text).exit_code == exit_codes.CONFIGURATION
    (tmp_path / "order.avsc").write_text('"string"', encoding="utf-8")
    assert run("config", "check", text=text).exit_code == exit_codes.OK


SECRETS = {
    "sasl.password": HIDDEN,
    "ssl.key.pem": HIDDEN,
    "ssl.key.password": HIDDEN,
    "sasl.oauthbearer.client.secret": HIDDEN,
    "admin.sasl.password": HIDDEN,
    "sasl.oauthbearer.extensions": HIDDEN,
    "spark.ssl.keystore.key": HIDDEN,
    "spark.ssl.keystore.certificate.chain": HIDDEN,
    "a.setting.of.next.year": HIDDEN,
    "sasl.oauthbearer.config": HIDDEN,
    "oauth_cb": "given",
    "admin.oauth_cb": "given",
    "ssl.key.location": "given",
    "sasl.username": "given",
    "bootstrap.servers": "given",
}


SPARK = {
    "spark.hadoop.fs.s3a.secret.key": HIDDEN,
    "spark.hadoop.fs.azure.account.key.here": HIDDEN,
    "spark.ssl.keyPassword": HIDDEN,
    "spark.executorEnv.API": HIDDEN,
    "spark.driver.memory": "given",
    "spark.sql.shuffle.partitions": "given",
}


def test_secrets_are_not_shown() -> None:
    """They are hidden in the printed configuration and in the settings' ``repr``."""
    registry = {"url": "http://user:gi/ven@registry,http://b?key=given", "basic.auth.user.info": "user:given"}
    spark = dict.fromkeys(SPARK, "given")
    settings = Settings.model_validate(
        {
            "group": "g",
            "kafka": dict.fromkeys(SECRETS, "given"),
            "sources": [{"topic": "a", "value": {"format": "avro", "registry": registry}}],
            "pipeline": {"checkpoint": "c", "spark": spark},
        }
    )
    document = shown(settings)
    assert document["kafka"] == SECRETS
    assert document["sources"][0]["value"]["registry"] == {
        "url": f"http://{HIDDEN}@registry,http://b?{HIDDEN}",
        "basic.auth.user.info": HIDDEN,
    }
    assert document["pipeline"]["spark"] == SPARK
    assert "given" not in repr(settings)


TYPED = """
from dataclasses import dataclass
from pydantic import BaseModel
from kafka_redelivery import Batch, Record
print("imported")

@dataclass
class Order:
    id: int

class Refund(BaseModel):
    id: int

def charge(order: Order): ...
def refund(record: Record[Refund]): ...
def wrong(record: dict): ...
def together(batch: Batch[Order]): ...
def crowded(batch: Batch, context): ...
class Shop:
    def __init__(self):
        raise RuntimeError
    def __call__(self, order: "Nowhere"): ...
"""
JSON_SOURCES = "sources: [{topic: orders, value: {format: json}}, {topic: refunds, value: {format: json}HANDLER}]\n"


def typed(handler: str, own: str = "", sources: str = JSON_SOURCES) -> str:
    """A configuration with a handler, and one of the second source."""
    text = GOOD.replace("sources: [{topic: orders}]\n", sources.replace("HANDLER", own))
    return f"{text}handler: {handler}\n"


@pytest.mark.parametrize(
    ("text", "faults"),
    [
        (typed("{callable: 'MODULE:charge'}", ", handler: {callable: 'MODULE:refund'}"), []),
        (typed("{callable: 'MODULE:refund', value: 'MODULE:Refund'}"), []),
        (typed("{callable: 'not_installed:charge', value: 'MODULE:Order'}"), []),
        (typed("{callable: 'MODULE:wrong', vectorized: true}"), []),
        (typed("{callable: 'MODULE:together'}", ", handler: {batch: {records: 10}}"), []),
        (
            typed("{callable: 'MODULE:charge', batch: {}}"),
            ["handler.callable: MODULE:charge: takes (order: MODULE.Order), but handler.batch in the configuration"],
        ),
        (typed("{callable: 'MODULE:crowded'}"), ["handler.callable: MODULE:crowded: takes (batch: "]),
        (typed("{callable: 'MODULE:wrong'}"), ["handler.callable: MODULE:wrong: has a first parameter"]),
        (typed("{callable: 'MODULE:Shop'}"), ["handler.callable: MODULE:Shop: has a first parameter of type Nowhere"]),
        (
            typed("{callable: 'MODULE:charge'}", ", handler: {callable: 'MODULE:wrong'}"),
            ["sources.1.handler.callable: MODULE:wrong: has a first parameter or a value of type dict"],
        ),
        (
            typed("{callable: 'MODULE:charge', value: 'MODULE:Refund'}"),
            ["handler.callable: MODULE:charge: takes Order, but its value is declared to be Refund"],
        ),
        (
            typed("{callable: 'MODULE:charge', value: 'MODULE:Ordre'}"),
            ["handler.value: MODULE:Ordre: module MODULE has no Ordre"],
        ),
        (
            typed(
                "{callable: 'MODULE:charge'}",
                sources="sources: [{topic: orders, value: {format: json}}, {topic: raw}]\n",
            ),
            ["handler.callable: MODULE:charge: takes Order, but the values of the source raw are bytes or text"],
        ),
        (
            typed("{callable: 'MODULE:charge', value: 'MODULE:Order', vectorized: true}"),
            ["handler.value: is set, but a vec"],
        ),
        (
            typed("{callable: 'MODULE:charge', notRetryable: [ValueErorr, KeyError, 'MODULE:Order', 'missing:Any']}"),
            [
                "handler.notRetryable.0: ValueErorr: module builtins has no ValueErorr",
                "handler.notRetryable.2: MODULE:Order: is listed, but is not an exception class",
            ],
        ),
        (
            typed("{callable: 'MODULE:charge'}", ", handler: {notRetryable: ['MODULE:Bda']}"),
            ["sources.1.handler.notRetryable.0: MODULE:Bda: module MODULE has no Bda"],
        ),
        (
            typed("{callable: 'MODULE:charge'}")
            + "dependencies: {bank: {unavailable: [OSError, ConectionError], probe: 'MODULE:answers'}}\n",
            [
                "dependencies.bank.unavailable.1: ConectionError: module builtins has no ConectionError",
                "dependencies.bank.probe: MODULE:answers: module MODULE has no answers",
            ],
        ),
    ],
)
def test_check_of_the_types_of_values(text: str, faults: list[str], tmp_path: Path) -> None:
    """What a worker would refuse is a fault. What cannot be imported is left to the worker, and no object is made."""
    name = "handlers_with_types"
    (tmp_path / f"{name}.py").write_text(TYPED, encoding="utf-8")
    result = run("config", "check", "--json", text=text.replace("MODULE", name))
    found = json.loads(result.stdout)["faults"]
    texts = [f"{each['location'].partition(' ')[2]}: {each['problem']}" for each in found]
    assert len(texts) == len(faults), texts
    for each, wanted in zip(texts, faults, strict=True):
        assert each.startswith(wanted.replace("MODULE", name))
    assert all(each["fix"] for each in found)
    assert name not in sys.modules
    assert str(tmp_path) not in sys.path


@pytest.mark.parametrize(
    ("handler", "warned"),
    [
        ("callable: 'MODULE:together', nonBlockingRedelivery: false", ["handler MODULE:together"]),
        ("callable: 'MODULE:together', nonBlockingRedelivery: false, ordering: key", []),
        ("callable: 'MODULE:together'", []),
        ("callable: 'MODULE:charge', nonBlockingRedelivery: false", []),
    ],
)
def test_check_warns_of_batches_of_one_record(handler: str, warned: list[str], tmp_path: Path) -> None:
    """Because those behind it may have to wait for it."""
    (tmp_path / "handlers_of_batches.py").write_text(TYPED, encoding="utf-8")
    text = typed(f"{{{handler}}}").replace("MODULE", "handlers_of_batches")
    found = json.loads(run("config", "check", "--json", text=text).stdout)["warnings"]
    assert [each["topic"] for each in found] == [each.replace("MODULE", "handlers_of_batches") for each in warned]


@pytest.mark.parametrize(
    ("handler", "warned"),
    [
        ("callable: 'calls_of_a_bank:charge'", ["dependencies.bank.deadline"]),
        ("callable: 'calls_of_a_bank:charge', isolation: process", []),
        ("callable: 'calls_of_a_bank:later'", []),
        ("callable: 'calls_of_a_bank:batch'", ["handler calls_of_a_bank:batch", "dependencies.bank.deadline"]),
    ],
)
def test_check_warns_of_threads_that_hang_with_a_dependency(handler: str, warned: list[str], tmp_path: Path) -> None:
    """A thread cannot be stopped. A batch of a source with a dependency has one record, too."""
    code = "from kafka_redelivery import Batch\ndef charge(record): ...\nasync def later(record): ...\n"
    (tmp_path / "calls_of_a_bank.py").write_text(f"{code}def batch(batch: Batch): ...\n", encoding="utf-8")
    text = GOOD.replace("orders", "orders, dependencies: [bank]")
    text += f"handler: {{{handler}, deadline: 5s}}\ndependencies: {{bank: {{deadline: true}}}}\n"
    found = json.loads(run("config", "check", "--json", text=text).stdout)["warnings"]
    assert [each["topic"] for each in found] == warned


def test_check_of_two_services_with_modules_of_the_same_name(tmp_path: Path) -> None:
    """Each is checked with its own modules."""
    for name, function in (("one", "charge"), ("two", "refund")):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "twice.py").write_text(f"def {function}(record): ...\n", encoding="utf-8")
        (folder / "redelivery.yaml").write_text(typed(f"{{callable: 'twice:{function}'}}"), encoding="utf-8")
    result = run("config", "check", "one/redelivery.yaml", "two/redelivery.yaml")
    assert (result.exit_code, result.stderr) == (exit_codes.OK, "")
