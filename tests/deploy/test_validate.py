"""Compose file and manifests are valid and consistent, and the validation finds errors."""

import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.validate import HERE, compose_faults, manifest_faults, with_defaults
from kafka_redelivery.cli.views.acls import AclUser, strimzi_users
from kafka_redelivery.cli.views.topology import strimzi_topics
from kafka_redelivery.topology.cluster.acls import AclRole, rights
from kafka_redelivery.topology.cluster.facts import MIN_INSYNC, TopicFacts
from kafka_redelivery.topology.cluster.kafka_rights import default_principal
from kafka_redelivery.topology.cluster.plan import plan
from kafka_redelivery.topology.config.loading import PREFIX, load_settings
from kafka_redelivery.topology.config.settings import DEFAULT_WIDTH
from kafka_redelivery.topology.durations import parse_duration
from kafka_redelivery.topology.metric_catalogue import LAG

FOLDER = HERE / "kubernetes"
OVERLAY = HERE / "kubernetes-spark"
USERS = HERE / "kubernetes-strimzi" / "users.yaml"
TOPICS = HERE / "kubernetes-strimzi" / "topics.yaml"
MANIFESTS = sorted([*FOLDER.glob("*.yaml"), *OVERLAY.glob("*.yaml"), USERS, TOPICS])
DEFAULT_SHUTDOWN = timedelta(seconds=25)


def documents() -> list[dict[str, Any]]:
    """All manifests."""
    return [each for path in MANIFESTS for each in yaml.safe_load_all(path.read_text())]


def of_kind(kind: str) -> list[dict[str, Any]]:
    """Manifests of a kind, at least one."""
    found = [each for each in documents() if each["kind"] == kind]
    assert found
    return found


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: f"{path.parent.stem}-{path.stem}")
def test_a_manifest_is_valid(path: Path) -> None:
    """Valid by Kubernetes' schemas, without unknown fields."""
    assert list(manifest_faults(path.read_text())) == []


@pytest.mark.parametrize(
    ("file", "right", "wrong"),
    [
        ("worker", "readOnlyRootFilesystem: true", "readOnlyRootFileSystem: true"),
        ("worker", "periodSeconds: 10", "periodSeconds: often"),
        ("worker", "kind: StatefulSet", "kind: StatefulPet"),
        ("disruption", "maxUnavailable: 1", "maxMissing: 1"),
        ("network", "policyTypes: [Ingress, Egress]", "policyType: [Ingress, Egress]"),
        ("autoscaling", "minReplicaCount: 2", "minReplicas: 2"),
        ("autoscaling", 'threshold: "5000"', "threshold: 5000"),
        ("kustomization", "configMapGenerator:", "configMapsGenerator:"),
        ("../kubernetes-strimzi/users", "patternType: prefix", "patternType: prefixed"),
        ("../kubernetes-strimzi/topics", "topicName: DLQ.orders", "topic: DLQ.orders"),
        ("../kubernetes-strimzi/topics", "name: billing.control", "name: billing_control"),
    ],
)
def test_a_broken_manifest_is_found(file: str, right: str, wrong: str) -> None:
    """A misspelt field, a wrong type, an unknown kind."""
    text = (FOLDER / f"{file}.yaml").read_text()
    assert right in text
    assert list(manifest_faults(text.replace(right, wrong)))


def test_the_compose_file_is_valid() -> None:
    """With its variables at their defaults."""
    assert list(compose_faults((HERE / "compose.yaml").read_text())) == []


def test_no_variable_of_the_compose_file_is_taken_for_a_setting() -> None:
    """A `redelivery` command in the same shell would refuse it."""
    assert f"${{{PREFIX}" not in (HERE / "compose.yaml").read_text()


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("stop_grace_period: 40s", "stop_grace_periods: 40s"),
        ("condition: service_healthy", "condition: service_well"),
        ("read_only: true", "read_only: often"),
        ("kafka:/var/lib/kafka/data", "kavka:/var/lib/kafka/data"),
        ("kafka: {condition", "kavka: {condition"),
    ],
)
def test_a_broken_compose_file_is_found(right: str, wrong: str) -> None:
    """A misspelt key, an unknown condition, a wrong type, undeclared names."""
    text = (HERE / "compose.yaml").read_text()
    assert right in text
    assert list(compose_faults(text.replace(right, wrong)))


def test_kustomize_includes_every_file() -> None:
    """Each manifest is a resource, each file of a generator exists, and the configuration is valid."""
    kustomization, overlay = of_kind("Kustomization")
    names = [path.name for path in sorted(FOLDER.glob("*.yaml")) if path.stem != "kustomization"]
    assert sorted(kustomization["resources"]) == names
    assert overlay["resources"] == ["../kubernetes", "stream.yaml"]
    generators = kustomization["configMapGenerator"]
    files = [each for found in generators for key in ("files", "envs") for each in found.get(key, ())]
    assert all((FOLDER / file).is_file() for file in files)
    text = (FOLDER / "config" / "redelivery.yaml").read_text()
    settings = load_settings(text.replace("kafka:\n", "kafka:\n  bootstrap.servers: kafka:9092\n", 1))
    assert settings.handlers


def test_grace_periods_are_longer_than_a_shutdown() -> None:
    """By at least five seconds, in Kubernetes and in Compose."""
    text = (FOLDER / "config" / "redelivery.yaml").read_text()
    shutdown = parse_duration(yaml.safe_load(text)["limits"]["shutdownTimeout"])
    assert isinstance(shutdown, timedelta)
    for each in of_kind("StatefulSet"):
        grace_s = each["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]
        assert timedelta(seconds=grace_s) >= shutdown + timedelta(seconds=5)
    services = yaml.safe_load(with_defaults((HERE / "compose.yaml").read_text()))["services"]
    for role in ("worker", "scheduler", "stream"):
        grace = re.fullmatch(r"(\d+)s", services[role]["stop_grace_period"])
        assert grace is not None
        assert timedelta(seconds=int(grace[1])) >= DEFAULT_SHUTDOWN + timedelta(seconds=5)


def test_pods_have_a_name_probes_and_no_rights() -> None:
    """The instance is the pod's name; probes use the image's endpoint; no root, read-only."""
    for each in of_kind("StatefulSet"):
        pod = each["spec"]["template"]["spec"]
        (container,) = pod["containers"]
        (instance,) = [entry for entry in container["env"] if entry["name"] == "REDELIVERY_INSTANCE"]
        assert instance["valueFrom"]["fieldRef"]["fieldPath"] == "metadata.name"
        assert container["livenessProbe"]["httpGet"] == container["startupProbe"]["httpGet"]
        assert container["livenessProbe"]["httpGet"] == {"path": "/healthz", "port": "metrics"}
        assert container["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "metrics"}
        assert container["ports"] == [{"name": "metrics", "containerPort": 9404}]
        image = "spark.Dockerfile" if container["image"] == "kafka-redelivery-spark" else "Dockerfile"
        assert "REDELIVERY_METRICS__PORT=9404" in (HERE / image).read_text()
        user = re.search(r"^USER (\d+):(\d+)$", (HERE / image).read_text(), re.MULTILINE)
        assert user is not None
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert [pod["securityContext"][name] for name in ("runAsUser", "runAsGroup")] == [int(user[1]), int(user[2])]
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }


def test_each_role_has_a_user_of_its_own() -> None:
    """It has the rights that `redelivery topology acls` prints; user name, Secret and mounted files belong together."""
    text = (FOLDER / "config" / "redelivery.yaml").read_text()
    pods = {"REDELIVERY_KAFKA__BOOTSTRAP_SERVERS": "-", "REDELIVERY_METRICS__PORT": "9404"}
    settings = load_settings(text, environment=pods)
    roles = [AclRole.WORKER, AclRole.SCHEDULER, AclRole.APPLY, AclRole.SPARK, AclRole.CONSOLE]
    users = [AclUser(default_principal(settings.group, role), (role,), rights(settings, [role])) for role in roles]
    assert list(yaml.safe_load_all(USERS.read_text())) == strimzi_users(users, settings.kafka)
    used = []
    for each in [*of_kind("StatefulSet"), *of_kind("Job"), *of_kind("Deployment")]:
        pod = each["spec"]["template"]["spec"]
        (container,) = pod["containers"]
        (user,) = [entry["value"] for entry in container["env"] if entry["name"] == "REDELIVERY_KAFKA__SASL_USERNAME"]
        used.append(user)
        mounted = {volume["name"]: volume["secret"] for volume in pod["volumes"] if "secret" in volume}
        secrets = {name: secret for name, secret in mounted.items() if name.startswith("kafka-")}
        assert secrets["kafka-user"]["secretName"] == user
        places = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
        files = {f"{places[name]}/{item['path']}" for name, secret in secrets.items() for item in secret["items"]}
        assert files == {settings.kafka["ssl.ca.location"], settings.kafka["sasl.password.file"]}
    assert sorted(used) == sorted(user.name for user in users)


def test_the_topics_are_those_of_the_configuration() -> None:
    """As `redelivery topology plan` prints them for Strimzi."""
    text = (FOLDER / "config" / "redelivery.yaml").read_text()
    settings = load_settings(text, environment={"REDELIVERY_KAFKA__BOOTSTRAP_SERVERS": "-"})
    configs = {MIN_INSYNC: "2"}
    source = TopicFacts(name="orders", partitions=12, replication_factor=3, configs=configs)
    planned = plan(settings, {"orders": source}, DEFAULT_WIDTH)
    assert list(yaml.safe_load_all(TOPICS.read_text())) == strimzi_topics(planned, {})


def test_the_console_asks_who_one_is() -> None:
    """Its users are in a Secret, it has one pod, no root, a read-only disk, and is reached from one namespace."""
    (console,) = of_kind("Deployment")
    assert (console["spec"]["replicas"], console["spec"]["strategy"]) == (1, {"type": "Recreate"})
    pod = console["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    dockerfile = (HERE / "Dockerfile").read_text()
    assert '"--host=0.0.0.0", "--port=8080"' in dockerfile
    assert container["ports"] == [{"name": "http", "containerPort": 8080}]
    (tokens,) = [argument.partition("=")[2] for argument in container["args"] if argument.startswith("--tokens=")]
    places = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    (secret,) = [volume["secret"] for volume in pod["volumes"] if volume["name"] == "tokens"]
    assert [f"{places['tokens']}/{item['path']}" for item in secret["items"]] == [tokens]
    assert secret["defaultMode"] & 0o007 == 0
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert pod["securityContext"]["runAsNonRoot"] is True
    policy = next(each for each in of_kind("NetworkPolicy") if each["metadata"]["name"] == "console")
    assert policy["spec"]["podSelector"] == console["spec"]["selector"]
    (rule,) = policy["spec"]["ingress"]
    assert rule["ports"] == [{"protocol": "TCP", "port": 8080}]
    assert all("namespaceSelector" in each for each in rule["from"])


def test_only_the_brokers_are_reached() -> None:
    """Every rule for outgoing traffic has a destination, and one has the brokers' port."""
    policy = next(each for each in of_kind("NetworkPolicy") if each["metadata"]["name"] == "redelivery")
    assert set(policy["spec"]["policyTypes"]) == {"Ingress", "Egress"}
    assert all(rule.get("to") for rule in policy["spec"]["egress"])
    port = (FOLDER / "config" / "kafka.env").read_text().rpartition(":")[2].strip()
    assert int(port) in {each["port"] for rule in policy["spec"]["egress"] for each in rule["ports"]}


def test_selectors_match_pods() -> None:
    """Services, budgets and the autoscaler select existing pods; the query uses a metric of the catalogue."""
    sets = {each["metadata"]["name"]: each for each in of_kind("StatefulSet")}
    labels = [each["spec"]["template"]["metadata"]["labels"] for each in sets.values()]
    for each in of_kind("PodDisruptionBudget"):
        assert any(each["spec"]["selector"]["matchLabels"].items() <= found.items() for found in labels)
    pods = {each["metadata"]["name"]: each for each in (*sets.values(), *of_kind("Deployment"))}
    for each in of_kind("Service"):
        assert each["spec"]["selector"] == pods[each["metadata"]["name"]]["spec"]["selector"]["matchLabels"]
    (scaled,) = of_kind("ScaledObject")
    assert scaled["spec"]["scaleTargetRef"]["name"] in sets
    assert "replicas" not in sets["worker"]["spec"]
    assert f"{LAG.name}{{" in scaled["spec"]["triggers"][0]["metadata"]["query"]


def test_kustomize_labels_selectors_of_our_pods_and_no_others() -> None:
    """Templates get the labels that selectors get; a policy still finds the cluster's DNS by its own label."""
    labelled = {}
    for each in of_kind("Kustomization"):
        (labels,) = each["labels"]
        assert "includeSelectors" not in labels
        assert labels["includeTemplates"] is True
        labelled[len(each["resources"])] = {(field["kind"], field["path"]) for field in labels["fields"]}
    base, overlay = (labelled[number] for number in sorted(labelled, reverse=True))
    for folder, fields in ((FOLDER, base), (OVERLAY, overlay)):
        manifests = [each for path in folder.glob("*.yaml") for each in yaml.safe_load_all(path.read_text())]
        found = {(each["kind"], path) for each in manifests for path in selectors(each.get("spec", {}), "spec")}
        assert fields == {(kind, path) for kind, path in found if kind != "Kustomization"}
    policy = next(each for each in of_kind("NetworkPolicy") if each["metadata"]["name"] == "redelivery")
    (dns,) = [each for rule in policy["spec"]["egress"] for each in rule["to"] if "podSelector" in each]
    assert dns["podSelector"] == {"matchLabels": {"k8s-app": "kube-dns"}}


def selectors(spec: dict[str, Any], path: str) -> Iterator[str]:
    """Yield the paths of selectors with labels of our pods."""
    for name, value in spec.items():
        for part in value if isinstance(value, list) else [value]:
            if isinstance(part, dict):
                step = f"{path}/{name}[]" if isinstance(value, list) else f"{path}/{name}"
                yield from selectors(part, step)
    if any(name.startswith("app.kubernetes.io/") for name in spec) and not path.endswith("/labels"):
        yield path


def test_the_memory_of_the_query_suffices_for_its_cores() -> None:
    """The CPU limit bounds the number of tasks; each needs memory besides the JVM and the driver."""
    (stream,) = [each for each in of_kind("StatefulSet") if each["metadata"]["name"] == "stream"]
    (container,) = stream["spec"]["template"]["spec"]["containers"]
    limits = container["resources"]["limits"]
    memory = re.fullmatch(r"(\d+)Gi", limits["memory"])
    assert memory is not None
    assert int(memory[1]) * 1024 >= 1536 + 300 * int(limits["cpu"])


def test_the_spark_overlay_removes_all_worker_manifests() -> None:
    """The overlay deletes exactly the manifests named worker."""
    _, overlay = of_kind("Kustomization")
    deleted = [yaml.safe_load(each["patch"]) for each in overlay["patches"]]
    assert all(each["$patch"] == "delete" for each in deleted)
    workers = [each for each in documents() if each.get("metadata", {}).get("name") == "worker"]
    found = [(each["apiVersion"], each["kind"], each["metadata"]["name"]) for each in deleted]
    assert sorted(found) == sorted((each["apiVersion"], each["kind"], "worker") for each in workers)
