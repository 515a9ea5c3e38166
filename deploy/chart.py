"""Writes the Helm chart from the manifests of deploy/kubernetes: ``python -m deploy.chart``.

Every change of a manifest is one of the replacements below, which fail if the manifest has nothing to replace. Defaults
of ``values.yaml`` are what the manifests say. The chart is also rendered for the tests, which then need no ``helm``:
with all that the manifests have, and with every option changed.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import yaml

HERE: Final = Path(__file__).parent
BASE: Final = HERE / "kubernetes"
CHART: Final = HERE / "helm"
RENDERED: Final = HERE.parent / "tests" / "deploy" / "helm"
RESULTS: Final = ("whole", "options", "scaled")
"""Each is made with the values in a file beside it."""

_RELEASE: Final = "{{ .Release.Name }}"
_WRAPPED: Final = {
    "autoscaling": ".Values.autoscaling.enabled",
    "console": ".Values.console.enabled",
    "disruption": "",
    "network": ".Values.networkPolicy.enabled",
    "scheduler": "",
    "service-account": "",
    "topology": ".Values.topology.enabled",
    "worker": "",
}
"""The manifests that become templates, each with the condition for it."""

_GROUP: Final = '{{ include "redelivery.group" . }}'

_ANNOTATIONS: Final = """\
{{- with .Values.serviceAccount.annotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
{{- end }}
"""

_OF_ONE: Final = {
    "worker": [
        (
            r"^  # autoscaling.yaml sets the replicas.*\n",
            "{{- if not .Values.autoscaling.enabled }}\n  replicas: {{ .Values.worker.replicas }}\n{{- end }}\n",
        )
    ],
    "scheduler": [(r"^  replicas: \d+$", "  replicas: {{ .Values.scheduler.replicas }}")],
    # A Job is immutable, so each change makes another one.
    "topology": [(r"^(  name: .*-topology)$", r'\1-{{ include "redelivery.job" . }}')],
    "console": [
        (r"secretName: console-tokens,", 'secretName: "{{ .Values.console.tokensSecret }}",'),
        (r"name: ingress-nginx$", "name: {{ .Values.console.ingressNamespace }}"),
    ],
    "service-account": [(r"^automountServiceAccountToken:", rf"{_ANNOTATIONS}\g<0>")],
    "network": [
        (r"^( +)app.kubernetes.io/name: kafka-redelivery$", rf"\g<0>\n\1app.kubernetes.io/instance: {_RELEASE}"),
        (r"name: monitoring$", "name: {{ .Values.networkPolicy.monitoringNamespace }}"),
        (r"name: kafka$", "name: {{ .Values.networkPolicy.kafkaNamespace }}"),
        (r"port: 9093\}", "port: {{ .Values.networkPolicy.kafkaPort }}}"),
        (r"\Z", "    {{- with .Values.networkPolicy.egress }}\n    {{- toYaml . | nindent 4 }}\n    {{- end }}\n"),
    ],
    "autoscaling": [
        (r"minReplicaCount: \d+", "minReplicaCount: {{ .Values.autoscaling.minReplicas }}"),
        (r"maxReplicaCount: \d+ #.*", "maxReplicaCount: {{ .Values.autoscaling.maxReplicas }}"),
        (r"^    replicas: \d+", "    replicas: {{ .Values.autoscaling.maxReplicas }}"),
        (r"serverAddress: .*", "serverAddress: {{ .Values.autoscaling.prometheus }}"),
        (r'group="billing"', f'group="{_GROUP}"'),
        (r'threshold: "\d+"', "threshold: {{ .Values.autoscaling.lag | quote }}"),
    ],
}
"""What becomes a value in one manifest alone: patterns and their replacements."""

_HELPERS: Final = """\
{{- define "redelivery.group" -}}
{{- range .Values.env }}
{{- if eq .name "REDELIVERY_GROUP" }}{{ fail "set the value group instead of REDELIVERY_GROUP in env" }}{{ end }}
{{- end }}
{{- $group := .Values.group | default (get (fromYaml (get .Values.config "redelivery.yaml" | default "")) "group") }}
{{- $group = required "config needs a redelivery.yaml with the group" $group | toString }}
{{- if contains "${" $group }}
{{- fail "redelivery.yaml takes the group from a variable, which the chart does not know; set the value group" }}
{{- end }}
{{- $group }}
{{- end }}

{{- /* The user of a role, and its Secret: as `redelivery topology acls` names them. */}}
{{- define "redelivery.user" -}}
{{- $name := printf "%s-%s" (include "redelivery.group" (first .)) (last .) | lower }}
{{- regexReplaceAll "[^a-z0-9.-]+" $name "-" | trimAll ".-" }}
{{- end }}

{{- define "redelivery.labels" -}}
app.kubernetes.io/name: kafka-redelivery
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/part-of: {{ include "redelivery.group" . | trunc 63 | trimAll "._-" | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "redelivery.image" -}}
{{ .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag }}{{ end }}
{{- end }}

{{- define "redelivery.checksum" -}}
{{ printf "%s %s %s" (toJson .Values.config) (toJson .Values.kafka) .Values.group | sha256sum | trunc 10 }}
{{- end }}

{{- define "redelivery.job" -}}
{{ printf "%s %s" .Chart.Version (toJson .Values) | sha256sum | trunc 10 }}
{{- end }}
"""

_CONFIG: Final = """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .Release.Name }}
  labels:
    {{- include "redelivery.labels" . | nindent 4 }}
data:
  {{- toYaml .Values.config | nindent 2 }}
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .Release.Name }}-kafka
  labels:
    {{- include "redelivery.labels" . | nindent 4 }}
data:
  REDELIVERY_KAFKA__BOOTSTRAP_SERVERS: {{ .Values.kafka.bootstrapServers | quote }}
  {{- with .Values.group }}
  REDELIVERY_GROUP: {{ . | quote }}
  {{- end }}
"""

_LABELS: Final = f"""
\\1app.kubernetes.io/name: kafka-redelivery
\\1app.kubernetes.io/instance: {_RELEASE}"""


class _Manifest:
    """A manifest that is being made a template."""

    def __init__(self, name: str) -> None:
        self._name = name
        text = (BASE / f"{name}.yaml").read_text(encoding="utf-8")
        self.text = text[text.index("apiVersion:") :]  # the first lines are about kubectl

    def put(self, pattern: str, replacement: str | Callable[[re.Match[str]], str], *, optional: bool = False) -> None:
        """Replace each match; there is at least one, unless it is optional."""
        self.text, count = re.subn(pattern, replacement, self.text, flags=re.MULTILINE)
        if not count and not optional:
            raise ValueError(f"deploy/kubernetes/{self._name}.yaml has nothing like {pattern!r}; adapt deploy/chart.py")

    def put_if(self, pattern: str, condition: str) -> None:
        """Put a condition around each match, which is whole lines."""
        self.put(pattern, lambda found: f"{{{{- if {condition} }}}}\n{found[0]}{{{{- end }}}}\n")


def files() -> dict[str, str]:
    """Return the files of the chart by their path in it."""
    helpers = {"templates/_helpers.tpl": _HELPERS, "templates/config.yaml": _CONFIG}
    return {
        "Chart.yaml": _chart(),
        "values.yaml": _values(),
        **helpers,
        **{f"templates/{name}.yaml": _template(name) for name in _WRAPPED},
    }


def _template(name: str) -> str:
    manifest = _Manifest(name)
    _name(manifest)
    if "containers:" in manifest.text:
        _pods(manifest, name)
    for pattern, replacement in _OF_ONE.get(name, ()):
        manifest.put(pattern, replacement)
    condition = _WRAPPED[name]
    return f"{{{{- if {condition} }}}}\n{manifest.text}{{{{- end }}}}\n" if condition else manifest.text


def _name(manifest: _Manifest) -> None:
    """Begin names with that of the release, and add labels, so that several releases fit in a namespace."""
    labels = '\n  labels:\n    {{- include "redelivery.labels" . | nindent 4 }}'
    manifest.put(r"^  name: redelivery$", f"  name: {_RELEASE}{labels}", optional=True)
    manifest.put(r"^  name: (\w+)$", rf"  name: {_RELEASE}-\1{labels}", optional=True)
    manifest.put(r"^( +(?:  name|serviceName): )(\w+)$", rf"\1{_RELEASE}-\2", optional=True)
    manifest.put(r"^( +)app.kubernetes.io/component: \w+$", rf"\g<0>{_LABELS}", optional=True)


def _pods(manifest: _Manifest, name: str) -> None:
    manifest.put(r"serviceAccountName: redelivery$", f"serviceAccountName: {_RELEASE}")
    image = ".Values.console.image" if name == "console" else ".Values.image"
    manifest.put(r"image: kafka-redelivery(-console)?$", f'image: {{{{ include "redelivery.image" {image} }}}}')
    manifest.put(r"(configMapRef: \{name: )redelivery-kafka\}", rf'\1"{_RELEASE}-kafka"}}')
    manifest.put(r"(configMap: \{name: )redelivery\}", rf'\1"{_RELEASE}"}}')
    user = r'"{{ include "redelivery.user" (list . "\1") }}"'
    manifest.put(r"value: billing-(\w+)\}", rf"value: {user}}}")
    manifest.put(r"secretName: billing-(\w+),", f"secretName: {user},")
    manifest.put(r"secretName: kafka-ca,", 'secretName: "{{ .Values.kafka.caSecret }}",')
    manifest.put_if(r"^ +- \{name: kafka-ca, .*\n", ".Values.kafka.caSecret")
    manifest.put_if(r"^ +- name: kafka-ca\n.*\n", ".Values.kafka.caSecret")
    manifest.put_if(r"^ +- \{name: kafka-user, .*\n", ".Values.kafka.passwords")
    manifest.put_if(r"^( +# A changed Secret .*\n)? +- name: kafka-user\n.*\n", ".Values.kafka.passwords")
    manifest.put_if(r"^ +# The user's rights .*\n.*SASL_USERNAME.*\n", ".Values.kafka.passwords")
    more = "            {{- with .Values.env }}\n            {{- toYaml . | nindent 12 }}\n            {{- end }}\n"
    manifest.put(r"^          envFrom:\n", rf"{more}\g<0>")
    manifest.put(
        r"^( +)resources:\n.*\n.*\n",
        rf"\1resources:\n            {{{{- toYaml .Values.{name}.resources | nindent 12 }}}}\n",
    )
    if name in {"worker", "scheduler"}:
        manifest.put(r"^( +terminationGracePeriodSeconds:) \d+$", r"\1 {{ .Values.terminationGracePeriodSeconds }}")
    manifest.put(r"^      containers:\n", rf"{_more('imagePullSecrets', 6)}\g<0>")
    manifest.put(r"^          volumeMounts:\n", rf"\g<0>{_more('volumeMounts', 12, listed=True)}")
    manifest.put(r"^      volumes:\n", rf"\g<0>{_more('volumes', 8, listed=True)}")
    if name in {"console", "topology"}:  # they have no other variables
        manifest.put(r"^          env:\n", "{{- if or .Values.kafka.passwords .Values.env }}\n\\g<0>{{- end }}\n")
    if name == "topology":
        return
    checksum = 'checksum/config: {{ include "redelivery.checksum" . | quote }}\n'
    if "\n      annotations:\n" in manifest.text:
        manifest.put(r"^      annotations:\n", rf"\g<0>        {checksum}")
    else:
        manifest.put(r"^      labels:\n", rf"      annotations:\n        {checksum}\g<0>")


def _more(value: str, indent: int, *, listed: bool = False) -> str:
    """Return what adds a list that is a value, with its name or to a list that is there (``listed``)."""
    name = "" if listed else f"{' ' * indent}{value}:\n"
    inner = indent if listed else indent + 2
    text = f"{{{{- toYaml . | nindent {inner} }}}}"
    start = f"{' ' * indent}{{{{- with .Values.{value} }}}}\n"
    return f"{start}{name}{' ' * inner}{text}\n{' ' * indent}{{{{- end }}}}\n"


def _chart() -> str:
    project = tomllib.loads((HERE.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return (
        "apiVersion: v2\nname: kafka-redelivery\n"
        f"description: {project['description']}\n"
        f"type: application\nversion: {project['version']}\nappVersion: {project['version']}\n"
        'kubeVersion: ">=1.33.0-0"\n'
    )


def _values() -> str:
    base = {name: _one(name) for name in ("worker", "scheduler", "console", "topology")}
    scaled = next(_documents("autoscaling"))["spec"]
    kustomization = next(_documents("kustomization"))
    images = {each["name"]: each for each in kustomization["images"]}
    config = {
        path: (BASE / path).read_text(encoding="utf-8") for path in kustomization["configMapGenerator"][0]["files"]
    }
    servers = (BASE / "config" / "kafka.env").read_text(encoding="utf-8").partition("BOOTSTRAP_SERVERS=")[2].strip()
    prometheus = scaled["triggers"][0]["metadata"]

    def image(name: str) -> str:
        return f'{{repository: {images[name]["newName"]}, tag: {images[name]["newTag"]}, digest: ""}}'

    def resources(name: str) -> str:
        found = base[name]["spec"]["template"]["spec"]["containers"][0]["resources"]
        return yaml.safe_dump(found, default_flow_style=True, width=1000).strip()

    texts = "".join(f"  {Path(path).name}: |\n{_indented(text)}" for path, text in config.items())
    return f"""\
# Defaults of the chart. Written by `python -m deploy.chart` from deploy/kubernetes; docs/deploy.md explains them.

# The files in /app: configuration and handler. Handlers with packages of their own need an image of their own.
# Users of Kafka and their Secrets are GROUP-worker, GROUP-scheduler, GROUP-apply and GROUP-console, with the group of
# redelivery.yaml in lower case and with - for what is not allowed there, as `redelivery topology acls` prints them.
config:
{texts}
# Overrides the group of redelivery.yaml; needed if that takes it from a variable.
group: ""

kafka:
  bootstrapServers: {servers}
  # The Secret with ca.crt, mounted at /etc/kafka/ca; empty for brokers with a public certificate.
  caSecret: kafka-ca
  # false: no Secrets with passwords are mounted and no user is set, for a login with kafka.oauth_cb.
  passwords: true

# An image by digest cannot change: {{repository: registry.example.com/kafka-redelivery, digest: "sha256:..."}}
image: {image("kafka-redelivery")}

# Names of Secrets for a private registry, as in a manifest: {{name: registry-login}}
imagePullSecrets: []

# More variables of all pods, as in a manifest: {{name: AWS_REGION, value: eu-west-1}}
env: []

# More volumes of all pods, and where their containers have them, as in a manifest.
volumes: []
volumeMounts: []

# For workers and schedulers; at least 5 s more than limits.shutdownTimeout of the configuration.
terminationGracePeriodSeconds: {base["worker"]["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]}

serviceAccount:
  # For the identity of the pods in a cloud, such as eks.amazonaws.com/role-arn.
  annotations: {{}}

worker:
  # Not used with autoscaling. At most one for each partition of the sources and ready topics is of use.
  replicas: {scaled["minReplicaCount"]}
  resources: {resources("worker")}

scheduler:
  replicas: {base["scheduler"]["spec"]["replicas"]}
  resources: {resources("scheduler")}

# A Job that creates missing topics, anew after each change of the values.
topology:
  enabled: true
  resources: {resources("topology")}

# Its users are in a Secret with the key `tokens` (docs/console.md).
console:
  enabled: false
  image: {image("kafka-redelivery-console")}
  tokensSecret: console-tokens
  # The namespace of the ingress controller, which alone reaches it.
  ingressNamespace: ingress-nginx
  resources: {resources("console")}

# Scales workers by their lag, with KEDA and Prometheus.
autoscaling:
  enabled: false
  minReplicas: {scaled["minReplicaCount"]}
  # Partitions of the sources and ready topics.
  maxReplicas: {scaled["maxReplicaCount"]}
  # Lag per worker.
  lag: {prometheus["threshold"]}
  prometheus: {prometheus["serverAddress"]}

# Lets Prometheus in, and DNS and the brokers out.
networkPolicy:
  enabled: true
  monitoringNamespace: monitoring
  kafkaNamespace: kafka
  kafkaPort: 9093
  # More rules for outgoing traffic: a schema registry, what handlers call, the endpoint of a cloud's logins.
  egress: []
"""


def _one(name: str) -> dict[str, Any]:
    """Return the manifest with the pods."""
    return next(each for each in _documents(name) if "template" in each.get("spec", {}))


def _documents(name: str) -> Iterator[dict[str, Any]]:
    yield from yaml.safe_load_all((BASE / f"{name}.yaml").read_text(encoding="utf-8"))


def _indented(text: str) -> str:
    return "".join(f"    {line}\n" if line else "\n" for line in text.splitlines())


def fingerprint(chart: dict[str, str]) -> str:
    """Return what the rendered manifests are of: the chart and the values."""
    values = [(RENDERED / f"{name}.values.yaml").read_text(encoding="utf-8") for name in RESULTS]
    return sha256(repr((sorted(chart.items()), values)).encode()).hexdigest()[:16]


def main() -> int:
    """Write the chart, and render it. Returns the exit code: 1 if it cannot be rendered here."""
    chart = files()
    shutil.rmtree(CHART, ignore_errors=True)
    for name, text in chart.items():
        (CHART / name).parent.mkdir(parents=True, exist_ok=True)
        (CHART / name).write_text(text, encoding="utf-8")
    helm = shutil.which("helm")
    if helm is None:
        sys.stderr.write("helm is not on the path: the chart is written, but not rendered for the tests\n")
        return 1
    subprocess.run([helm, "lint", "--strict", str(CHART)], check=True)
    for name in RESULTS:
        values = str(RENDERED / f"{name}.values.yaml")
        words = [helm, "template", "shop", str(CHART), "--kube-version", "1.33", "--values", values]
        done = subprocess.run(words, check=True, capture_output=True, text=True)
        (RENDERED / f"{name}.yaml").write_text(f"# chart {fingerprint(chart)}\n{done.stdout}", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
