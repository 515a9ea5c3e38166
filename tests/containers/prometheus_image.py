"""The Prometheus image of the tests: the public one if it is configured, else one with this machine's program."""

import os
import shutil
from pathlib import Path
from typing import Final

from docker import DockerClient

from tests.containers.base_image import ImageMissingError, base_image
from tests.containers.context import Context, built

CHOSEN: Final = "TEST_PROMETHEUS_IMAGE"
"""The environment variable that names the image to test on, such as ``prom/prometheus:v3.7.3``."""

# Entry point, options, user and folders of the public image.
_RECIPE: Final = b"""
ARG BASE
FROM ${BASE}
COPY prometheus /bin/prometheus
RUN mkdir -p /etc/prometheus /prometheus && chown nobody:nogroup /etc/prometheus /prometheus
USER nobody
EXPOSE 9090
VOLUME /prometheus
WORKDIR /prometheus
ENTRYPOINT ["/bin/prometheus"]
CMD ["--config.file=/etc/prometheus/prometheus.yml", "--storage.tsdb.path=/prometheus"]
"""


def prometheus_image(client: DockerClient) -> str:
    """Return the tag of the image; build it if it does not exist.

    Raises:
        ImageMissingError: Prometheus is not installed.
    """
    chosen = os.environ.get(CHOSEN)
    if chosen:
        return chosen
    program = shutil.which("prometheus")
    if program is None:
        raise ImageMissingError(f"install prometheus (Debian: apt install prometheus), or set {CHOSEN}")
    context: Context = {"Dockerfile": _RECIPE, "prometheus": Path(program)}
    return built(client, "redelivery-prometheus", context, BASE=base_image(client))
