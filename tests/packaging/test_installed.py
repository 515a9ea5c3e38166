"""The wheel installs one package, which works in a project whose modules have the names of our folders."""

import json
import subprocess
import zipfile
from pathlib import Path

import pytest

from kafka_redelivery.transport.broker.embedded import EmbeddedKafka
from tests.packaging.project import ROOT, Environment, build_sdist, build_wheel, write_project
from tests.scenarios.cluster import Cluster, Sent
from tests.scenarios.waiting import until

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel from this checkout."""
    return build_wheel(ROOT, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory, wheel: Path) -> Environment:
    """Install the wheel with the requirements of the worker image, and pytest."""
    return Environment.create(tmp_path_factory.mktemp("environment") / "venv", wheel, "runtime", "pytest")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Create a project with colliding names."""
    write_project(tmp_path)
    return tmp_path


def test_the_wheel_holds_one_package(wheel: Path) -> None:
    """The wheel holds ``kafka_redelivery`` and its metadata only."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert {name.partition("/")[0] for name in names} == {"kafka_redelivery", "kafka_redelivery-0.1.0.dist-info"}
    assert {"kafka_redelivery/py.typed", "kafka_redelivery/transport/broker/kafka_jars.txt"} <= set(names)


def test_checkout_and_source_distribution_build_the_same_wheel(wheel: Path, tmp_path: Path) -> None:
    """The links at the top of the checkout are in neither."""
    subprocess.run(["tar", "-xf", build_sdist(ROOT, tmp_path), "-C", tmp_path], check=True)  # noqa: S607
    (unpacked,) = (each for each in tmp_path.iterdir() if each.is_dir())
    assert {each.name for each in unpacked.iterdir() if each.is_dir()} == {"src"}
    with zipfile.ZipFile(wheel) as ours, zipfile.ZipFile(build_wheel(unpacked, tmp_path / "again")) as again:
        assert {each.filename: each.CRC for each in ours.infolist() if ".dist-info" not in each.filename} == {
            each.filename: each.CRC for each in again.infolist() if ".dist-info" not in each.filename
        }


def test_every_file_of_the_packages_is_in_the_wheel(wheel: Path) -> None:
    """The wheel has every folder and data file of the packages."""
    files = [path for path in (ROOT / "src").rglob("*") if path.is_file()]
    expected = {str(path.relative_to(ROOT / "src")) for path in files if "__pycache__" not in path.parts}
    with zipfile.ZipFile(wheel) as archive:
        assert expected <= set(archive.namelist())


def test_it_is_imported_from_the_environment(installed: Environment, project: Path) -> None:
    """``python -c`` searches the working directory first."""
    code = "import kafka_redelivery as k; print(k.HandlerKit.__module__, k.__file__)"
    module, file = installed.run(project, "python", "-c", code).split()
    assert module == "kafka_redelivery.consumers.testkit"
    assert Path(file).is_relative_to(installed.folder)


def test_the_projects_own_tests_use_the_kit(installed: Environment, project: Path) -> None:
    """The plugin is there without any setting, and runs a handler in a package called ``consumers``."""
    assert "1 passed in" in installed.run(project, "pytest", "-q", "-p", "no:cacheprovider", "-W", "error")


@pytest.mark.parametrize("isolation", ["none", "process"])
def test_a_worker_runs_the_projects_handler(
    installed: Environment, project: Path, kafka: EmbeddedKafka, unique: str, isolation: str
) -> None:
    """The installed worker and scheduler deliver one record, and another that fails once."""
    cluster = _prepare(installed, project, kafka, unique, {"isolation": isolation})
    environment = {**installed.variables, "OUTPUT": f"{unique}.out"}
    with (project / "log").open("wb") as log:
        processes = [
            subprocess.Popen([installed.command("redelivery"), role], cwd=project, env=environment, stderr=log)
            for role in ("worker", "scheduler")
        ]
        try:
            until(
                lambda: len(cluster.read(f"{unique}.out")) == 2 or any(each.poll() is not None for each in processes),
                "both records are emitted",
            )
        finally:
            for each in processes:
                each.terminate()
            codes = [each.wait(60) for each in processes]
    assert codes == [0, 0], (project / "log").read_text()
    assert sorted(record.value or b"" for record in cluster.read(f"{unique}.out")) == [b"0", b"1"]


@pytest.mark.spark
@pytest.mark.long
def test_a_spark_task_runs_the_projects_handler(
    tmp_path_factory: pytest.TempPathFactory, wheel: Path, project: Path, kafka: EmbeddedKafka, unique: str
) -> None:
    """Python workers of Spark start in the working directory, and must not import the project's ``grp.py``."""
    installed = Environment.create(tmp_path_factory.mktemp("spark") / "venv", wheel, "spark")
    cluster = _prepare(installed, project, kafka, unique, {})
    done = subprocess.run(
        [installed.command("redelivery"), "pipeline", "stream", "--available-now"],
        cwd=project,
        env={**installed.variables, "OUTPUT": f"{unique}.out"},
        capture_output=True,
        text=True,
        check=False,
        timeout=150,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert [record.value for record in cluster.read(f"{unique}.out")] == [b"0"]


def _prepare(
    installed: Environment, project: Path, kafka: EmbeddedKafka, unique: str, handler: dict[str, str]
) -> Cluster:
    """Write the configuration, create the topics, and send two records."""
    cluster = Cluster(kafka.bootstrap_servers)
    cluster.create(f"{unique}.in", f"{unique}.out")
    configuration = {
        "group": unique,
        "kafka": {"bootstrap.servers": kafka.bootstrap_servers, "log_level": 0},
        "sources": [{"topic": f"{unique}.in", "value": {"format": "json"}}],
        "outputs": [{"topic": f"{unique}.out", "value": {"format": "json"}}],
        "handler": {"callable": "consumers.billing:copy", **handler},
        "policyEntry": {"redeliveryPolicy": {"initialRedeliveryDelay": 200, "redeliveryDelay": 200}},
        "pipeline": {"checkpoint": "checkpoint", "spark": {"spark.master": "local[2]"}},
    }
    (project / "redelivery.yaml").write_text(json.dumps(configuration), encoding="utf-8")
    installed.run(project, "redelivery", "topology", "apply")
    cluster.produce(f"{unique}.in", [Sent(b"0"), Sent(b"1")])
    return cluster
