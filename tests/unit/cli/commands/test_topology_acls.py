"""`redelivery topology acls`: the ACLs of each role, in three formats that say the same."""

import json
import shlex
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner, Result

from kafka_redelivery.cli.main import app
from kafka_redelivery.topology import exit_codes
from kafka_redelivery.topology.cluster.acls import AclRole

TEXT = """
group: billing
kafka: {bootstrap.servers: 'nowhere:1', sasl.password: s3cret}
sources: [{topic: orders}, {topic: bills}]
outputs: [{topic: receipts}]
"""


@pytest.fixture
def file(tmp_path: Path) -> str:
    """A configuration with two sources."""
    path = tmp_path / "redelivery.yaml"
    path.write_text(TEXT, encoding="utf-8")
    return str(path)


def acls(file: str, *arguments: str) -> Result:
    """Run the command with this configuration."""
    return CliRunner().invoke(app, ["topology", "acls", "--config", file, *arguments])


def granted(script: str) -> set[tuple[str, str, str, str, str]]:
    """What a shell script of `kafka-acls.sh` grants: principal, type, pattern, name, operation."""
    types = {"--topic": "topic", "--group": "group", "--transactional-id": "transactionalId"}
    found = set()
    for line in script.splitlines():
        words = shlex.split(line, comments=True)
        pairs = [(word, words[at + 1]) for at, word in enumerate(words[:-1]) if word.startswith("--")]
        values = dict(pairs)
        found |= {
            (values["--allow-principal"], types[flag], values["--resource-pattern-type"], name, operation)
            for flag, name in pairs
            if flag in types
            for _, operation in [pair for pair in pairs if pair[0] == "--operation"]
        }
    return found


def test_the_three_formats_grant_the_same(file: str) -> None:
    """Commands, Strimzi's users and JSON have every right of every role."""
    document = json.loads(acls(file, "--format", "json").stdout)
    expected = {
        (user["principal"], acl["resourceType"], acl["patternType"], acl["name"], acl["operation"])
        for user in document
        for acl in user["acls"]
    }
    assert {user["principal"] for user in document} == {f"User:billing-{role}" for role in AclRole}
    assert granted(acls(file).stdout) == expected
    users = list(yaml.safe_load_all(acls(file, "--format", "strimzi").stdout))
    patterns = {"literal": "literal", "prefix": "prefixed"}
    assert expected == {
        (f"User:{user['metadata']['name']}", acl["resource"]["type"], patterns[acl["resource"]["patternType"]],
         acl["resource"]["name"], operation)
        for user in users
        for acl in user["spec"]["authorization"]["acls"]
        for operation in acl["operations"]
    }  # fmt: skip


@pytest.mark.parametrize(
    ("login", "authentication"),
    [
        ("sasl.mechanism: SCRAM-SHA-512", {"type": "scram-sha-512"}),
        ("ssl.certificate.location: /c", {"type": "tls"}),
        ("sasl.mechanism: OAUTHBEARER", None),
        ("security.protocol: SSL", None),
    ],
)
def test_a_user_of_strimzi_logs_in_as_configured(tmp_path: Path, login: str, authentication: object) -> None:
    """If Strimzi manages that kind of login."""
    path = tmp_path / "redelivery.yaml"
    path.write_text(TEXT.replace("sasl.password: s3cret", login), encoding="utf-8")
    for user in yaml.safe_load_all(acls(str(path), "--format", "strimzi").stdout):
        assert user["spec"].get("authentication") == authentication


def test_one_role(file: str) -> None:
    """For one user at a time."""
    assert {right[0] for right in granted(acls(file, "--role", "worker").stdout)} == {"User:billing-worker"}


@pytest.mark.parametrize("name", ["svc", "User:svc"])
def test_one_principal_for_several_roles(file: str, name: str) -> None:
    """It gets the rights of all of them, in one resource of Strimzi."""
    arguments = ("--role", "worker", "--role", "scheduler", "--principal", name)
    single = granted(acls(file, *arguments[:4]).stdout)
    assert {right[0] for right in granted(acls(file, *arguments).stdout)} == {"User:svc"}
    assert len(list(yaml.safe_load_all(acls(file, *arguments, "--format", "strimzi").stdout))) == 1
    assert ("topic", "literal", "orders", "Read") in {right[1:] for right in single}


def test_an_empty_principal(file: str) -> None:
    """Is wrong usage."""
    assert acls(file, "--principal", "User:").exit_code == exit_codes.USAGE


def test_no_secret_is_printed(file: str) -> None:
    """Only the address of the cluster is taken from its settings."""
    result = acls(file)
    assert (result.exit_code, result.stderr) == (exit_codes.OK, "")
    assert "--bootstrap-server nowhere:1" in result.stdout
    assert "s3cret" not in result.stdout


def test_a_group_whose_name_kubernetes_would_refuse(tmp_path: Path) -> None:
    """The default principal is a valid name of a resource."""
    path = tmp_path / "redelivery.yaml"
    path.write_text(TEXT.replace("group: billing", "group: My_Billing"), encoding="utf-8")
    document = json.loads(acls(str(path), "--role", "apply", "--format", "json").stdout)
    assert document[0]["principal"] == "User:my-billing-apply"


def test_dead_letters_of_another_system() -> None:
    """They need no configuration, and each topic that letters came from is asked for by name."""
    words = ["topology", "acls", "--dead-letters", "orders-dlt", "--origin", "orders", "--format", "json"]
    (user,) = json.loads(CliRunner().invoke(app, words).stdout)
    assert user["principal"] == "User:orders-dlt-redrive"
    for refused in (["--origin", "orders"], ["--dead-letters", "orders-dlt", "--role", "worker"]):
        assert CliRunner().invoke(app, ["topology", "acls", *refused]).exit_code == exit_codes.USAGE
