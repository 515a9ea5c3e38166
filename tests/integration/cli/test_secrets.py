"""A secret of the configuration is in nothing that a command prints, also if the configuration is wrong."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from kafka_redelivery.cli.main import app
from tests.scenarios.canary import CANARY, REGISTRY, SECRETS, SPARK

_WHOLE = {
    "group": "billing",
    "kafka": {"bootstrap.servers": "127.0.0.1:1", "socket.connection.setup.timeout.ms": 1000, **SECRETS},
    "sources": [{"topic": "orders", "value": {"format": "avro", "registry": REGISTRY}}],
    "handler": {"callable": "json:loads"},
    "pipeline": {"checkpoint": "checkpoint", "spark": SPARK},
}


@pytest.fixture(autouse=True)
def _file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write the configuration into a folder of its own; JSON is YAML."""
    monkeypatch.chdir(tmp_path)
    write({})


def write(sections: dict[str, object]) -> None:
    """Write the configuration with other sections."""
    Path("redelivery.yaml").write_text(json.dumps(_WHOLE | sections), encoding="utf-8")


@pytest.mark.parametrize(
    "command",
    [
        "config show",
        "config show --json",
        "config check",
        "config check --json",
        "explain orders --json",
        "topology plan --offline --partitions orders=2 --json",
        "topology acls",
        "topology acls --format json",
        "topology acls --format strimzi",
        "topology apply",
    ],
)
def test_commands_print_no_secret(command: str) -> None:
    """Not even with a traceback of an error."""
    done = CliRunner().invoke(app, ["--debug", *command.split()])
    assert done.output
    assert CANARY not in done.output


@pytest.mark.parametrize(
    "sections",
    [
        {"kafka": SECRETS | {"sasl.pasword": CANARY}},
        {"kafka": {"sasl.password": [CANARY]}},
        {"kafka": {"sasl.password": {"x": CANARY}}},
        {"kafka": CANARY},
        {"kafka": _WHOLE["kafka"], "pipeline": {"checkpoint": "c", "spark": {"secret.key": [CANARY]}}},
        {
            "sources": [
                {"topic": "orders", "value": {"format": "avro", "registry": REGISTRY | {"url": f"u:{CANARY}@x"}}}
            ]
        },
        {"sources": [{"topic": "orders", "value": {"format": "avro", "registry": {"x.password": CANARY}}}]},
        {"console": {"grafana": f"https://u:{CANARY}@grafana"}},
        {"console": {"grafana": f"https://grafana/?auth_token={CANARY}"}},
        {"console": {"grafana": f"ftp://u:{CANARY}@grafana"}},
        {"pipeline": {"checkpoint": f"s3a://key:{CANARY}@bucket/x"}},
        {"pipeline": {"checkpoint": "c", "sink": {"topic": "o", "path": f"s3a://key:{CANARY}@bucket/x"}}},
        {"limits": {"batch": f"https://u:{CANARY}@x"}},
    ],
    ids=str,
)
def test_errors_print_no_secret(sections: dict[str, object]) -> None:
    """A fault is named by its location."""
    write(sections)
    for command in ("config check", "config check --json", "topology apply"):
        done = CliRunner().invoke(app, ["--debug", *command.split()])
        assert CANARY not in done.output


@pytest.mark.parametrize(
    "value", [f"*{CANARY}", f"!{CANARY}", f"!{CANARY}!x", f"&{CANARY} &{CANARY} x", f"!!{CANARY} x", f"@{CANARY}"]
)
def test_a_password_that_looks_like_yaml_is_not_quoted(value: str) -> None:
    """Its owner has forgotten the quotes."""
    Path("redelivery.yaml").write_text(
        f"group: billing\nkafka:\n  bootstrap.servers: x:1\n  sasl.password: {value}\nsources: [{{topic: orders}}]\n",
        encoding="utf-8",
    )
    for command in ("config check", "config check --json", "topology apply"):
        done = CliRunner().invoke(app, ["--debug", *command.split()])
        assert done.exit_code
        assert CANARY not in done.output
        assert "redelivery.yaml:4:" in done.output
        assert "quotes" in done.output


def test_a_url_is_shown_without_its_secrets() -> None:
    """A user is hidden where it is no password, too."""
    write({"pipeline": {"checkpoint": f"hdfs://{CANARY}@namenode/x"}})
    done = CliRunner().invoke(app, ["config", "show"])
    assert "hdfs://********@namenode/x" in done.output
    assert CANARY not in done.output


_CLASSIC = f"""<beans xmlns="http://www.springframework.org/schema/beans">
<broker xmlns="http://activemq.apache.org/schema/core" brokerName="x">
<networkConnectors><networkConnector uri="static:(tcp://u:{CANARY}@h:1)" userName="u" password="{CANARY}"/>
</networkConnectors><plugins><simpleAuthenticationPlugin><users>
<authenticationUser username="u" password="{CANARY}" groups="g"/></users></simpleAuthenticationPlugin></plugins>
<sslContext><sslContext keyStore="k" keyStorePassword="{CANARY}"/></sslContext>
<transportConnectors><transportConnector uri="ssl://0.0.0.0:1?keyStorePassword={CANARY}"/></transportConnectors>
</broker></beans>"""

_ARTEMIS = f"""<configuration xmlns="urn:activemq"><core xmlns="urn:activemq:core">
<cluster-password>{CANARY}</cluster-password>
<acceptors><acceptor name="a">tcp://0.0.0.0:1?keyStorePassword={CANARY}</acceptor></acceptors>
<connectors><connector name="c">tcp://u:{CANARY}@h:1</connector></connectors>
<address-settings><address-setting match="#"><max-delivery-attempts>5</max-delivery-attempts></address-setting>
</address-settings></core></configuration>"""


@pytest.mark.parametrize(
    "source",
    [
        _CLASSIC,
        _CLASSIC.replace("<plugins>", f'<plugins password="{CANARY}">'),
        _CLASSIC.replace("</broker>", f"<secret>{CANARY}</secret></broker>"),
        _CLASSIC.replace("</beans>", ""),
        _ARTEMIS,
        _ARTEMIS.replace("<max-delivery-attempts>5<", f"<secret>{CANARY}</secret><max-delivery-attempts>5<"),
        _ARTEMIS.replace("</core>", ""),
        f"failover:(tcp://u:{CANARY}@b:1,tcp://x:1)?jms.userName=u&jms.password={CANARY}&jms.pasword={CANARY}",
        f"tcp://b:1?jms.password={CANARY}&jms.redeliveryPolicy.maximumRedeliveries=2",
        f"tcp://u:{CANARY}@b:port",
        f"https://u:{CANARY}@h/activemq.xml?token={CANARY}",
        f"file://u:{CANARY}@h/activemq.xml",
        f"file://u:{CANARY}@[h/activemq.xml",
    ],
)
def test_an_importer_prints_no_secret(source: str, tmp_path: Path) -> None:
    """A broker's configuration has passwords in many places; those of a URI are in the command line, too."""
    argument = source
    if source.startswith("<"):
        argument = str(tmp_path / "broker.xml")
        Path(argument).write_text(source, encoding="utf-8")
    done = CliRunner().invoke(app, ["--debug", "import", argument])
    assert done.output
    assert CANARY not in done.output


@pytest.mark.slow
@pytest.mark.parametrize("form", ["text", pytest.param("json", marks=pytest.mark.long)])
def test_logs_have_no_secret(form: str) -> None:
    """A worker and a scheduler that find no Kafka log everything that they know, and end."""
    options = ["--log-format", form, "--log-level", "debug"]
    start = [sys.executable, "-c", "from kafka_redelivery.cli.main import app; app()", "--debug"]
    started = [
        subprocess.Popen([*start, role, *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for role in ("worker", "scheduler")
    ]
    try:
        for process in started:
            out, err = process.communicate(timeout=90)
            assert process.returncode != 0
            assert err
            assert CANARY not in out + err
    finally:
        for process in started:
            process.kill()
