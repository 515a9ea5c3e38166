"""Validates the Compose file and the Kubernetes manifests against their schemas, offline: ``./dev check``."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import jsonschema
import kubernetes_validate
import yaml
from compose_spec import PyCompose

HERE: Final = Path(__file__).parent
KUBERNETES: Final = "1.33"
"""The oldest Kubernetes version that the manifests support."""

_SCHEMAS: Final = {
    kind: json.loads((HERE / "schemas" / f"{kind.lower()}.json").read_text(encoding="utf-8"))
    for kind in ("ScaledObject", "Kustomization", "KafkaUser", "KafkaTopic")
}
_VARIABLE: Final = re.compile(r"\$\{(\w+)(?::-([^}]*))?\}")


def manifest_faults(text: str) -> Iterator[str]:
    """Errors in the manifests of one file."""
    for number, document in enumerate(yaml.safe_load_all(text), start=1):
        kind = document.get("kind", "?")
        try:
            if kind in _SCHEMAS:
                jsonschema.validate(document, _SCHEMAS[kind])
            else:
                kubernetes_validate.validate(document, KUBERNETES, strict=True)
        except (jsonschema.ValidationError, kubernetes_validate.ValidationError) as error:
            where = ".".join(str(step) for step in error.path)
            yield f"document {number} ({kind}) {where}: {error.message}"
        except kubernetes_validate.SchemaNotFoundError:
            yield f"document {number} ({kind}): this kind does not exist in Kubernetes {KUBERNETES}"


def compose_faults(text: str) -> Iterator[str]:
    """Errors in a Compose file, with its variables at their defaults."""
    try:
        plain = with_defaults(text)
        PyCompose.from_yaml(plain).validate()
    except ValueError as error:
        yield str(error)
    else:
        yield from _dangling(yaml.safe_load(plain))


def _dangling(compose: dict[str, Any]) -> Iterator[str]:
    """References to services and volumes that do not exist, which the library does not check."""
    services, volumes = compose["services"], compose.get("volumes", {})
    for name, service in services.items():
        for other in service.get("depends_on", ()):
            if other not in services:
                yield f"{name} depends on {other}, which is not a service"
        for volume in service.get("volumes", ()):
            source = volume.partition(":")[0]
            if source[0] not in "./" and source not in volumes:
                yield f"{name} mounts {source}, which is not a volume"


def with_defaults(text: str) -> str:
    """The text with each ``${NAME:-default}`` replaced by its default, and ``<<`` merged."""

    def default(found: re.Match[str]) -> str:
        if found[2] is None:
            raise ValueError(f"{found[0]} has no default")
        return found[2]

    merged: Any = yaml.safe_load(_VARIABLE.sub(default, text))
    dumped: str = yaml.safe_dump({name: part for name, part in merged.items() if not name.startswith("x-")})
    return dumped


def main() -> int:
    """Print each fault. Returns the exit code: 1 if there is any."""
    faults = [
        *(f"deploy/compose.yaml: {fault}" for fault in compose_faults((HERE / "compose.yaml").read_text("utf-8"))),
        *(
            f"deploy/{path.relative_to(HERE)}: {fault}"
            for path in sorted(HERE.glob("kubernetes*/*.yaml"))
            for fault in manifest_faults(path.read_text(encoding="utf-8"))
        ),
    ]
    sys.stdout.writelines(f"{fault}\n" for fault in faults)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
