"""The image runs without root and with a read-only disk, has no pip, and takes a mounted or layered handler."""

import json
from typing import Any

import pytest
from docker import DockerClient
from packaging.utils import canonicalize_name

from deploy.sbom import bills
from tests.containers.context import built
from tests.containers.kafka_image import ROOT
from tests.containers.processes import LOCKED_DOWN, ContainerGroup
from tests.containers.worker_image import console_image
from tests.scenarios.waiting import until

_OWN_LAYERS_MB = 200
"""The most that the image may add to its base image."""

_CONSOLE_LAYERS_MB = 220


_CONTENTS = """
import importlib.metadata as metadata, json, pathlib, sysconfig
site = pathlib.Path(sysconfig.get_path("purelib"))
packages = [(each.metadata["Name"], each.version) for each in metadata.distributions(path=[str(site)])]
print(json.dumps({"packages": packages, "tests": [str(path) for path in site.rglob("tests")]}))
"""


def _said(client: DockerClient, image: str, *command: str, **options: Any) -> bytes:  # noqa: ANN401 (the engine's)
    """Run a container that prints something, and return that; exit code 0 is expected."""

    def output() -> bytes:
        said: bytes = client.containers.run(image, list(command), remove=True, **options)
        return said

    # On a busy machine an engine can lose the output of a container that ends at once.
    return until(output, f"the output of {command} is there")


def test_it_is_small_and_its_user_is_not_root(client: DockerClient, worker_image: str) -> None:
    """The size of its own layers is limited, it has no pip, and its numeric user shows that it is not root."""
    image = client.images.get(worker_image)
    own = sum(layer["Size"] for layer in image.history() if "COPY dir:" in layer["CreatedBy"])
    assert 0 < own < _OWN_LAYERS_MB * 1e6
    assert image.attrs["Config"]["User"] == "10001:10001"
    code = "import importlib.util as u; print(u.find_spec('pip'))"
    assert _said(client, worker_image, "-c", code, entrypoint="python") == b"None\n"


def test_it_contains_nothing_but_its_bill_of_materials(client: DockerClient, worker_image: str) -> None:
    """Its packages are those that ``./dev sbom`` lists, in the same versions: no Spark, no tools, no tests."""
    _check_contents(client, worker_image, "image.cdx.json")


@pytest.mark.long
def test_the_image_of_the_console_contains_nothing_but_its_bill_of_materials(client: DockerClient) -> None:
    """It has what the console needs in addition, and no more."""
    image = console_image(client)
    _check_contents(client, image, "image-console.cdx.json")
    own = sum(layer["Size"] for layer in client.images.get(image).history() if "COPY dir:" in layer["CreatedBy"])
    assert 0 < own < _CONSOLE_LAYERS_MB * 1e6


def _check_contents(client: DockerClient, image: str, bill: str) -> None:
    """Assert that the Python packages in an image are those of its bill, and that no tests are there."""
    components = [each for each in bills()[bill]["components"] if each["purl"].startswith("pkg:pypi/")]
    said = _said(client, image, "-c", _CONTENTS, entrypoint="python")
    contents = json.loads(said)
    found = {(canonicalize_name(name), version) for name, version in contents["packages"]}
    assert found == {(each["name"], each["version"]) for each in components}
    assert contents["tests"] == []


def test_a_handler_is_layered_in(client: DockerClient, worker_image: str) -> None:
    """``FROM`` and ``COPY`` suffice: the configuration is read without network, root or a writable disk."""
    recipe = f"FROM {worker_image}\nCOPY quickstart /app\n".encode()
    image = built(client, "redelivery-layered", {"Dockerfile": recipe, "quickstart": ROOT / "examples" / "quickstart"})
    said = _said(client, image, "config", "check", network_mode="none", **LOCKED_DOWN)
    assert said == b"redelivery.yaml: no faults\n"


def test_nothing_is_written_and_nobody_is_root(containers: ContainerGroup) -> None:
    """After handling a record, the user has no capabilities, the root file system is unchanged, a write is refused."""
    containers.prepare()
    worker = containers.worker()
    worker.ready()
    containers.group.send([["ok"]])
    containers.group.settle()
    assert worker.run("id", "-u") == (0, "10001\n")
    assert worker.run("sh", "-c", "grep CapEff /proc/1/status")[1].split()[1] == "0" * 16
    code, said = worker.run("touch", "/app/x", "/opt/x")
    assert (code, said.count("Read-only file system")) == (1, 2)
    places_of_mounts = {"/app", "/app/handlers.py", "/app/redelivery.yaml"}
    assert {change["Path"] for change in worker.container.diff() or ()} <= places_of_mounts
    assert worker.run("find", "/tmp", "-mindepth", "1") == (0, "")  # noqa: S108 - in the container
