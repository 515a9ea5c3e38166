"""What our image runs in the pods that Spark on Kubernetes starts.

Spark starts the image with the argument ``executor``, or with ``driver`` and the arguments of ``spark-submit``. It
passes the rest in environment variables.

Source: `BasicExecutorFeatureStep`, `DriverCommandFeatureStep` and the image's entry point in
`resource-managers/kubernetes` of Apache Spark 4.2.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from kafka_redelivery.pipeline.errors import PipelineRefusedError

_BACKEND: Final = "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend"
_OPTIONS: Final = {
    "--driver-url": "SPARK_DRIVER_URL",
    "--executor-id": "SPARK_EXECUTOR_ID",
    "--cores": "SPARK_EXECUTOR_CORES",
    "--app-id": "SPARK_APPLICATION_ID",
    "--hostname": "SPARK_EXECUTOR_POD_IP",
    "--resourceProfileId": "SPARK_RESOURCE_PROFILE_ID",
    "--podName": "SPARK_EXECUTOR_POD_NAME",
}
_MEMORY: Final = "SPARK_EXECUTOR_MEMORY"
_JAVA_OPTION: Final = re.compile(r"SPARK_JAVA_OPT_[0-9]+")
_BIND_ADDRESS: Final = "SPARK_DRIVER_BIND_ADDRESS"


def spark_home() -> Path:
    """Return the folder of the installed PySpark.

    Raises:
        PipelineRefusedError: it is not installed.
    """
    found = find_spec("pyspark")
    if found is None or found.origin is None:
        raise PipelineRefusedError("PySpark is not installed; install kafka-redelivery with its extra 'spark'")
    return Path(found.origin).parent


def driver_command(environment: Mapping[str, str], home: Path, arguments: Iterable[str]) -> list[str]:
    """Return the command of a driver's pod.

    Args:
        environment: the pod's environment.
        home: the folder of Spark.
        arguments: what Spark passes after ``driver``: options of ``spark-submit``, the program and its arguments.

    Raises:
        PipelineRefusedError: a variable is missing.
    """
    (address,) = _values(environment, [_BIND_ADDRESS])
    submit = str(home / "bin" / "spark-submit")
    return [submit, "--conf", f"spark.driver.bindAddress={address}", "--deploy-mode", "client", *arguments]


def executor_command(environment: Mapping[str, str], home: Path, java_home: Path) -> list[str]:
    """Return the command of an executor's pod.

    Raises:
        PipelineRefusedError: a variable is missing.
    """
    memory, *values = _values(environment, [_MEMORY, *_OPTIONS.values()])
    numbered = sorted(filter(_JAVA_OPTION.fullmatch, environment), key=lambda name: int(name.rpartition("_")[2]))
    java_options = [environment[name] for name in numbered]
    options = [text for pair in zip(_OPTIONS, values, strict=True) for text in pair]
    return [
        str(java_home / "bin" / "java"),
        *java_options,
        f"-Xms{memory}",
        f"-Xmx{memory}",
        "-cp",
        _class_path(environment, home),
        _BACKEND,
        *options,
    ]


def _class_path(environment: Mapping[str, str], home: Path) -> str:
    configuration = environment.get("SPARK_CONF_DIR", str(home / "conf"))
    more = [environment.get(name) for name in ("SPARK_CLASSPATH", "SPARK_EXTRA_CLASSPATH", "SPARK_DIST_CLASSPATH")]
    return ":".join(filter(None, [configuration, f"{home}/jars/*", *more]))


def _values(environment: Mapping[str, str], names: Iterable[str]) -> list[str]:
    """Return the values of variables.

    Raises:
        PipelineRefusedError: one is missing.
    """
    missing = [name for name in names if name not in environment]
    if missing:
        raise PipelineRefusedError(
            f"{', '.join(missing)}: not in the environment. Spark on Kubernetes sets them in the pods that it starts; "
            "to run a job without it, use `redelivery pipeline stream`"
        )
    return [environment[name] for name in names]
