"""The Helm chart is made from the manifests, and what Helm makes of it says the same as they do."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from deploy.chart import BASE, CHART, RENDERED, RESULTS, files, fingerprint
from deploy.validate import manifest_faults
from kafka_redelivery.topology.cluster.kafka_rights import USER, default_principal

CHANGED = "python -m deploy.chart, with helm on the path"


def rendered(name: str) -> list[dict[str, Any]]:
    """What Helm has made of the chart."""
    text = (RENDERED / f"{name}.yaml").read_text(encoding="utf-8")
    return [each for each in yaml.safe_load_all(text) if each is not None]


def pods(name: str) -> dict[str, dict[str, Any]]:
    """The pods of each workload by its component."""
    found = [each["spec"]["template"] for each in rendered(name) if "template" in each.get("spec", {})]
    return {each["metadata"]["labels"]["app.kubernetes.io/component"]: each["spec"] for each in found}


def test_the_chart_is_current() -> None:
    """It is what its script makes of the manifests."""
    committed = {
        path.relative_to(CHART).as_posix(): path.read_text(encoding="utf-8")
        for path in CHART.rglob("*")
        if path.is_file()
    }
    assert committed == files(), CHANGED


@pytest.mark.parametrize("name", RESULTS)
def test_what_is_rendered_is_current_and_valid(name: str) -> None:
    """Valid by Kubernetes' schemas, without unknown fields."""
    text = (RENDERED / f"{name}.yaml").read_text(encoding="utf-8")
    assert text.startswith(f"# chart {fingerprint(files())}\n"), CHANGED
    assert list(manifest_faults(re.sub(r"^---\n(?=---|\Z)", "", text, flags=re.MULTILINE))) == []


def base() -> Iterator[dict[str, Any]]:
    """The manifests, without those that a chart does not need."""
    for path in BASE.glob("*.yaml"):
        for each in yaml.safe_load_all(path.read_text(encoding="utf-8")):
            if each["kind"] not in {"Namespace", "Kustomization"}:
                yield each


_IMAGE = re.compile(r"^(kafka-redelivery(?:-console)?):latest$")
_OURS = ("app.kubernetes.io/", "helm.sh/", "checksum/")


def as_in_base(value: Any) -> Any:  # noqa: ANN401 - any part of a manifest
    """Return what is rendered without the release's name, and without labels and the checksum."""
    if isinstance(value, dict):
        kept = {name: as_in_base(each) for name, each in value.items() if not name.startswith(_OURS)}
        return {name: each for name, each in kept.items() if name not in {"labels", "annotations"} or each}
    if isinstance(value, list):
        return [as_in_base(each) for each in value]
    if not isinstance(value, str):
        return value
    value = _IMAGE.sub(r"\1", value)
    value = re.sub(r"^shop-topology-\w+$", "topology", value)
    return re.sub(r"^shop-(worker|scheduler|console)$", r"\1", re.sub(r"^shop(?=-kafka$|$)", "redelivery", value))


def test_it_says_what_the_manifests_say() -> None:
    """Each manifest, with names of the release; its labels keep several releases apart."""

    def key(each: dict[str, Any]) -> tuple[str, str]:
        return each["kind"], each["metadata"]["name"]

    wanted = sorted(map(as_in_base, base()), key=key)
    found = [as_in_base(each) for each in rendered("whole") if each["kind"] != "ConfigMap"]
    assert sorted(found, key=key) == wanted
    for each in rendered("whole"):
        assert each["metadata"]["labels"]["app.kubernetes.io/instance"] == "shop"
        text = yaml.safe_dump(each.get("spec", {}))
        assert text.count("app.kubernetes.io/component: ") <= text.count("app.kubernetes.io/instance: shop")


def test_the_files_are_those_of_the_base() -> None:
    """Configuration, handler and the address of the brokers."""
    found = {each["metadata"]["name"]: each["data"] for each in rendered("whole") if each["kind"] == "ConfigMap"}
    assert found["shop"] == {
        name: (BASE / "config" / name).read_text(encoding="utf-8") for name in ("redelivery.yaml", "handlers.py")
    }
    env = dict(line.split("=", 1) for line in (BASE / "config/kafka.env").read_text().splitlines() if "=" in line)
    assert found["shop-kafka"] == env


def leaves(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:  # noqa: ANN401 - any YAML
    """Yield each value with its path."""
    if isinstance(value, dict) and value:
        for name, each in value.items():
            yield from leaves(each, (*path, name))
    else:
        yield path, value


def test_each_option_is_tried() -> None:
    """With another value than by default."""
    defaults = dict(leaves(yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))))
    for name in RESULTS:
        values = yaml.safe_load((RENDERED / f"{name}.values.yaml").read_text(encoding="utf-8"))
        for path, value in leaves(values):
            for tried in [each for each in defaults if path[: len(each)] == each and value != defaults[each]]:
                del defaults[tried]
    assert not defaults


def test_an_autoscaler_has_its_numbers() -> None:
    """And there is no network policy but that of the console, which is off."""
    found = {each["kind"]: each for each in rendered("scaled")}
    assert "NetworkPolicy" not in found
    spec = found["ScaledObject"]["spec"]
    assert (spec["minReplicaCount"], spec["maxReplicaCount"], spec["fallback"]["replicas"]) == (5, 48, 48)
    (trigger,) = spec["triggers"]
    assert (trigger["metadata"]["threshold"], trigger["metadata"]["serverAddress"]) == ("700", "http://metrics:9090")
    (container,) = found["Job"]["spec"]["template"]["spec"]["containers"]
    assert (container["image"], container["resources"]["requests"]["cpu"]) == ("kafka-redelivery:9", 4)


def test_users_are_those_of_the_group_in_the_configuration() -> None:
    """The group is said once."""
    options = [each["metadata"]["labels"]["app.kubernetes.io/part-of"] for each in rendered("options")]
    assert set(options) == {"payments"}
    assert 'value: "billing-worker"' in (RENDERED / "whole.yaml").read_text(encoding="utf-8")


def test_a_group_that_is_no_name_in_kubernetes() -> None:
    """Users and Secrets are those that `redelivery topology acls` prints; all else has the group as it is."""
    for component, pod in pods("scaled").items():
        role = {"topology": "apply"}.get(component, component)
        user = default_principal("Billing_EU", role).removeprefix(USER)
        (container,) = pod["containers"]
        assert {"name": "REDELIVERY_KAFKA__SASL_USERNAME", "value": user} in container["env"]
        assert [each["secret"]["secretName"] for each in pod["volumes"] if each["name"] == "kafka-user"] == [user]
    assert user.startswith("billing-eu-")
    found = {each["metadata"]["name"]: each for each in rendered("scaled")}
    assert found["shop-kafka"]["data"]["REDELIVERY_GROUP"] == "Billing_EU"
    text = (RENDERED / "scaled.yaml").read_text(encoding="utf-8")
    assert text.count('redelivery_lag{group="Billing_EU"}') == 2


def test_options_change_what_they_say() -> None:
    """A login without passwords, other names, an image by digest, a fixed number of workers."""
    found = rendered("options")
    kinds = [each["kind"] for each in found]
    assert "Job" not in kinds
    assert "ScaledObject" not in kinds
    text = (RENDERED / "options.yaml").read_text(encoding="utf-8")
    for absent in (
        "billing-",
        "kafka-user",
        "kafka-ca",
        "SASL_USERNAME",
        "monitoring\n",
        ":latest\n          args: [worker",
    ):
        assert absent not in text
    for name, pod in pods("options").items():
        (container,) = pod["containers"]
        assert {"name": "AWS_REGION", "value": "eu-west-1"} in container["env"]
        assert pod["imagePullSecrets"] == [{"name": "registry-login"}]
        assert {"name": "trust", "secret": {"secretName": "trust"}} in pod["volumes"]
        assert {"name": "trust", "mountPath": "/trust", "readOnly": True} in container["volumeMounts"]
        assert pod["terminationGracePeriodSeconds"] == (60 if name == "console" else 90)
        if name != "console":
            assert container["image"].startswith("registry.example.com/redelivery@sha256:")
    sets = {each["metadata"]["name"]: each["spec"]["replicas"] for each in found if each["kind"] == "StatefulSet"}
    assert sets == {"shop-worker": 7, "shop-scheduler": 3}
    (account,) = [each for each in found if each["kind"] == "ServiceAccount"]
    assert account["metadata"]["annotations"] == {
        "eks.amazonaws.com/role-arn": "arn:aws:iam::123456789012:role/payments"
    }
    policies = {each["metadata"]["name"]: each["spec"] for each in found if each["kind"] == "NetworkPolicy"}
    assert [rule["ports"][0]["port"] for rule in policies["shop"]["egress"]] == [53, 9094, 443]
    assert "kubernetes.io/metadata.name: gateway" in text
    assert 'secretName: "people"' in text
