# The jobs on Spark: `docker build -f deploy/spark.Dockerfile -t kafka-redelivery-spark .` in the root of a checkout.
#
# BASE needs Python 3.11 or newer as python3; Java and tini are installed from its Debian packages if they are missing.
# BUILD_BASE is the same Python with the venv module; packages are installed there, from the index of its pip.
ARG BASE=python:3.13-slim
ARG BUILD_BASE=${BASE}

FROM ${BUILD_BASE} AS build
WORKDIR /src
COPY requirements/build.txt requirements/spark.txt requirements/
# PySpark is published as source: build wheels, checked against their hashes, and install those.
# Compiled here, because the image runs read-only; the packages before the project, which changes more often. Tests of
# packages are removed.
RUN python3 -m venv /opt/build \
    && /opt/build/bin/python -m pip install --no-cache-dir --require-hashes -r requirements/build.txt \
    && /opt/build/bin/python -m pip wheel --no-cache-dir --no-deps --no-build-isolation --require-hashes \
        --wheel-dir /dist -r requirements/spark.txt \
    && python3 -m venv --without-pip /opt/redelivery \
    && /opt/build/bin/python -m pip --python /opt/redelivery/bin/python \
        install --no-cache-dir --no-compile --no-deps --no-index /dist/*.whl \
    && rm -r /dist \
    && find /opt/redelivery -depth -type d -name tests -path '*/site-packages/*' -exec rm -r {} + \
    && rm -rf /opt/redelivery/lib/python3*/site-packages/pyspark/examples \
        /opt/redelivery/lib/python3*/site-packages/pyspark/data \
    && /opt/redelivery/bin/python -m compileall -q --invalidation-mode unchecked-hash /opt/redelivery
COPY . .
RUN /opt/build/bin/python -m pip wheel --no-deps --no-build-isolation --wheel-dir /dist . \
    && /opt/build/bin/python -m pip --python /opt/redelivery/bin/python \
        install --no-cache-dir --no-compile --no-deps /dist/*.whl \
    && /opt/redelivery/bin/python -m compileall -q --invalidation-mode unchecked-hash \
        /opt/redelivery/lib/python3*/site-packages/kafka_redelivery
# Spark's Kafka connector and Delta Lake, each jar checked against its pinned hash.
ENV REDELIVERY_CACHE=/opt/spark
RUN /opt/redelivery/bin/python -c "from kafka_redelivery.pipeline.spark.jars import CONNECTOR, DELTA; CONNECTOR.paths(); DELTA.paths()" \
    # Spark on Kubernetes: drivers and executors find the jars among Spark's own, and run.py is the program to submit.
    && ln -s /opt/spark/jars/*.jar /opt/redelivery/lib/python3*/site-packages/pyspark/jars/ \
    && echo 'from kafka_redelivery.cli.main import app; app()' >/opt/redelivery/run.py

FROM ${BASE}
RUN { command -v java && command -v tini; } >/dev/null \
    || { java=$(command -v java >/dev/null || echo default-jre-headless) \
        && apt-get update && apt-get install --yes --no-install-recommends tini $java \
        && rm -rf /var/lib/apt/lists/*; } \
    # Java needs the name of its user.
    && echo 'redelivery:x:10001:10001::/tmp:/usr/sbin/nologin' >>/etc/passwd \
    # A new volume mounted here belongs to this user.
    && install -d -o 10001 -g 10001 /checkpoint
COPY --from=build /opt/spark /opt/spark
COPY --from=build /opt/redelivery /opt/redelivery
# Only /tmp is written: Spark spills there what does not fit in memory.
ENV PATH=/opt/redelivery/bin:$PATH \
    HOME=/tmp \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    REDELIVERY_CACHE=/opt/spark \
    REDELIVERY_METRICS__PORT=9404 \
    SPARK_LOCAL_DIRS=/tmp
# Mount or copy redelivery.yaml and the handler's module here.
WORKDIR /app
USER 10001:10001
EXPOSE 9404
HEALTHCHECK --interval=10s --timeout=3s --start-period=60s --retries=3 \
    CMD ["python", "-I", "-m", "kafka_redelivery.cli.probe", "/healthz"]
# The handler processes of Python workers that have ended are children of the first process. Neither Java nor our own
# process would wait for them, and they would stay as zombies until the container has no more process numbers.
ENTRYPOINT ["tini", "-s", "--", "redelivery", "pipeline"]
CMD ["stream"]
