"""`cub`: the programs of Confluent's images that scripts wait with, and `listeners` and `ensure-topic`.

`kafka-ready` and `zk-ready` wait until a number of brokers, or ZooKeeper, is there, and exit with 0; or with 1 after
the timeout. Programs that wait for parts of Confluent's platform (`sr-ready`, `connect-ready`, …) ask them over HTTP.
Messages go to the standard error. Mirrors `confluent.docker_utils.cub` with `ClusterStatus` and `TopicEnsure`.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import contextlib
import logging
import re
import ssl
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import yaml

from understudy.brokers.config.properties import MalformedProperties, parse_properties
from understudy.brokers.machine.real_world import MachineClock
from understudy.brokers.machine.socket_network import SocketNetwork
from understudy.clusters.clients.config_requests import TOPIC
from understudy.foundation.cluster.broker import BrokerAndEpoch
from understudy.foundation.cluster.identifiers import BrokerId
from understudy.foundation.wire.network import ConnectionFailed
from understudy.foundation.zk.kazoo_client import KazooZooKeeper
from understudy.kafka_tools.cluster import KafkaCluster
from understudy.kafka_tools.console import Console, Surroundings
from understudy.kafka_tools.errors import ToolError
from understudy.kafka_tools.zookeeper.session import zookeeper_session

# What kazoo logs of a connection that fails is the rule while a script waits.
logging.getLogger("kazoo").addHandler(logging.NullHandler())

SESSION_TIMEOUT_MS: Final = 30_000
PAUSE_S: Final = 1.0
"""Time between two looks."""
PLAINTEXT: Final = "PLAINTEXT"
_ANSWER_S: Final = 10.0


class Failed(Exception):
    """What was waited for is not there, or cannot be asked. The message is printed."""


class _Service(NamedTuple):
    """A part of Confluent's platform: what it is, the path to ask for, and a word of its answer."""

    name: str
    path: str
    word: str


SERVICES: Final = {
    "sr-ready": _Service("Schema Registry", "config", "compatibilityLevel"),
    "kr-ready": _Service("REST Proxy", "topics", ""),
    "connect-ready": _Service("Connect worker", "", "version"),
    "ksql-server-ready": _Service("KSQL server", "info", "Ksql"),
    "control-center-ready": _Service("Control Center", "", "Control Center"),
}
"""The services by the action that waits for each."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one action; return 0 if it succeeds, 1 if not, 2 for a wrong command line."""
    parser = _parser()
    words = sys.argv[1:] if arguments is None else list(arguments)
    if not words:
        parser.print_help()
        return 1
    try:
        options = parser.parse_args(words)
    except SystemExit as end:
        return int(end.code or 0)
    try:
        _ACTIONS.get(options.action, _service_ready)(options)
    except Failed as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


def _parser() -> argparse.ArgumentParser:
    root = argparse.ArgumentParser(prog="cub", description="Confluent's utility belt, as far as scripts use it.")
    actions = root.add_subparsers(help="Actions", dest="action")

    zk = actions.add_parser("zk-ready", description="Wait until ZooKeeper answers.")
    zk.add_argument("connect_string", help="ZooKeeper, HOST:PORT,…/CHROOT")
    zk.add_argument("timeout", help="seconds to wait", type=int)

    kafka = actions.add_parser("kafka-ready", description="Wait until enough brokers are in a cluster.")
    kafka.add_argument("expected_brokers", help="least number of brokers", type=int)
    kafka.add_argument("timeout", help="seconds to wait", type=int)
    way = kafka.add_mutually_exclusive_group(required=True)
    way.add_argument("-b", "--bootstrap_broker_list", help="brokers to ask, HOST:PORT,…")
    way.add_argument("-z", "--zookeeper_connect", help="ZooKeeper, which names a broker to ask")
    kafka.add_argument("-c", "--config", help="a properties file of the client")
    kafka.add_argument("-s", "--security-protocol", help="with -z: the protocol of the listener; PLAINTEXT by default")

    for action, service in SERVICES.items():
        ready = actions.add_parser(action, description=f"Wait until {service.name} answers.")
        ready.add_argument("host")
        ready.add_argument("port", type=int)
        ready.add_argument("timeout", help="seconds to wait", type=int)
        ready.add_argument("--secure", help="use TLS", action="store_true")
        ready.add_argument("--ignore_cert", help="accept any certificate", action="store_true")
        if action != "control-center-ready":
            ready.add_argument("--username", default="")
            ready.add_argument("--password", default="")

    listeners = actions.add_parser("listeners", description="Print listeners for advertised ones, on 0.0.0.0.")
    listeners.add_argument("advertised_listeners", help="as in advertised.listeners")

    topic = actions.add_parser("ensure-topic", description="Check topics, or create them.")
    topic.add_argument("config", help="a properties file of the client, bootstrap.servers among them")
    topic.add_argument("file", help="a YAML file of topics")
    topic.add_argument("timeout", help="seconds for all requests of one topic", type=int)
    topic.add_argument("--create_if_not_exists", help="create topics that do not exist", action="store_true")
    return root


# ---------------------------------------------------------------------- zk-ready, kafka-ready


def _zk_ready(options: argparse.Namespace) -> None:
    async def connect() -> None:
        async with zookeeper_session(_surroundings(options.timeout), options.connect_string):
            pass

    try:
        asyncio.run(connect())
    except ToolError as error:
        raise Failed(
            f"Timed out waiting for connection to Zookeeper server [{options.connect_string}]: {error.shown_message}"
        ) from None


def _surroundings(timeout_s: int) -> Surroundings:
    """Return what the sessions and clients of `kafka_tools` need.

    Args:
        timeout_s: the time that ZooKeeper may take to accept a session.
    """

    def zookeeper(connect: str) -> KazooZooKeeper:
        return KazooZooKeeper(
            connect,
            session_timeout_ms=SESSION_TIMEOUT_MS,
            connection_timeout_ms=1_000 * timeout_s,
            creates_chroot=False,
        )

    console = Console(sys.stdout, sys.stderr, str)
    return Surroundings(console, SocketNetwork(), MachineClock(), "", zookeeper=zookeeper)


def _cluster(bootstrap: str | None, timeout_s: int) -> KafkaCluster:
    timeout_ms = 1_000 * timeout_s
    return KafkaCluster(
        SocketNetwork(),
        _addresses(bootstrap),
        client_id="cub",
        request_timeout_ms=timeout_ms,
        api_timeout_ms=timeout_ms,
    )


def _kafka_ready(options: argparse.Namespace) -> None:
    protocol = (options.security_protocol or PLAINTEXT).upper()
    if protocol != PLAINTEXT and options.config is None:
        raise Failed("config is required for all protocols except PLAINTEXT")
    settings = _properties(options.config) if options.config else {}
    _require_plaintext(settings)
    asyncio.run(_wait_for_brokers(options, settings, protocol))


async def _wait_for_brokers(options: argparse.Namespace, settings: Mapping[str, str], protocol: str) -> None:
    expected, found = options.expected_brokers, 0
    try:
        async with asyncio.timeout(options.timeout):
            bootstrap = options.bootstrap_broker_list or settings.get("bootstrap.servers")
            if options.zookeeper_connect:
                bootstrap = await _registered_broker(options.zookeeper_connect, options.timeout, protocol)
            async with _cluster(bootstrap, options.timeout) as cluster:
                while (found := await _brokers(cluster)) < expected:
                    print(
                        f"Expected {expected} brokers but found only {found}. Trying to query Kafka for metadata "
                        "again ...",
                        file=sys.stderr,
                    )
                    await asyncio.sleep(PAUSE_S)
    except TimeoutError:
        raise Failed(f"Expected {expected} brokers but found only {found}.") from None


async def _brokers(cluster: KafkaCluster) -> int:
    """Return the number of brokers that a broker has in its metadata, 0 if none answers."""
    try:
        return len((await cluster.metadata(())).brokers)
    except ToolError:
        return 0


async def _registered_broker(connect: str, timeout_s: int, protocol: str) -> str:
    """Return the address of a registered broker; waits until there is one. Raises Failed."""
    try:
        async with zookeeper_session(_surroundings(timeout_s), connect) as session:
            while not (brokers := await session.zk.brokers.all()):
                await asyncio.sleep(PAUSE_S)
    except ToolError as error:
        raise Failed(f"Could not reach zookeeper {connect}: {error.shown_message}") from None
    return _endpoint(brokers, protocol)


def _endpoint(brokers: Mapping[BrokerId, BrokerAndEpoch], protocol: str) -> str:
    found = {
        endpoint.security_protocol.name: f"{endpoint.host}:{endpoint.port}"
        for broker in brokers.values()
        for endpoint in broker.broker.endpoints
    }
    if protocol not in found:
        raise Failed(f"No endpoints found for security protocol [{protocol}]. Endpoints found in ZK [{found}]")
    return found[protocol]


def _addresses(bootstrap: str | None) -> list[str]:
    """Return the `host:port` pairs; raises Failed for another form."""
    found = [address.strip().rpartition("://")[2] for address in (bootstrap or "").split(",") if address.strip()]
    wrong = [address for address in found if not re.fullmatch(r".+:\d{1,5}", address)]
    if wrong or not found:
        raise Failed(f"Bootstrap servers {bootstrap!r}: expected HOST:PORT,HOST:PORT")
    return found


def _properties(path: str) -> dict[str, str]:
    try:
        return parse_properties(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, MalformedProperties) as error:
        raise Failed(f"{path} cannot be read: {error}") from None


def _require_plaintext(settings: Mapping[str, str]) -> None:
    protocol = settings.get("security.protocol", PLAINTEXT).upper()
    if protocol != PLAINTEXT:
        raise Failed(f"security.protocol={protocol} is not supported; expected PLAINTEXT")


# ---------------------------------------------------------------------- listeners


def listeners_of(advertised: str) -> str:
    """Return listeners with the ports of advertised ones, each on every interface."""
    return re.sub(r"://(.*?):", "://0.0.0.0:", advertised)


def _listeners(options: argparse.Namespace) -> None:
    if not options.advertised_listeners:
        raise Failed("advertised.listeners is empty")
    print(listeners_of(options.advertised_listeners))


# ---------------------------------------------------------------------- ensure-topic


class _Topic(NamedTuple):
    """A topic as the file of `ensure-topic` has it."""

    name: str
    partitions: int
    replication_factor: int
    config: dict[str, str]

    def __str__(self) -> str:
        config = ", ".join(f"{key}={value}" for key, value in self.config.items())
        return (
            f"TopicSpec={{name='{self.name}', partitions='{self.partitions}', "
            f"replicationFactor={self.replication_factor}, config={{{config}}}}}"
        )


def _ensure_topic(options: argparse.Namespace) -> None:
    settings = _properties(options.config)
    _require_plaintext(settings)
    topics = _read_topics(options.file)
    cluster = _cluster(settings.get("bootstrap.servers"), options.timeout)
    try:
        asyncio.run(_ensure(cluster, topics, creates=options.create_if_not_exists))
    except ToolError as error:
        raise Failed(f"Error while running topic-ensure: {error}") from None


def _read_topics(path: str) -> list[_Topic]:
    try:
        found = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
        return [
            _Topic(
                str(each["name"]),
                int(each["partitions"]),
                int(each["replicationFactor"]),
                {str(key): _text(value) for key, value in (each.get("config") or {}).items()},
            )
            for each in found["topics"]
        ]
    except (OSError, UnicodeDecodeError, yaml.YAMLError, KeyError, TypeError, ValueError) as error:
        raise Failed(
            f"{path}: expected topics, each with name, partitions, replicationFactor and config; {error!r}"
        ) from None


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


async def _ensure(cluster: KafkaCluster, topics: Sequence[_Topic], *, creates: bool) -> None:
    """Check each topic, or create it; raises Failed for the first that is not as it should be."""
    async with cluster:
        for wanted in topics:
            found = await _found(cluster, wanted)
            print(f"Topic [ {wanted.name} ] exists ? {str(found is not None).lower()}", file=sys.stderr)
            if found == wanted:
                print(f"Topic spec [ {wanted} ] valid ? true", file=sys.stderr)
            elif found is not None:
                raise Failed(f"Invalid topic [ {wanted.name} ] ! Expected {wanted} but got {found}")
            elif creates:
                await cluster.create_topic(
                    wanted.name,
                    partitions=wanted.partitions,
                    replication_factor=wanted.replication_factor,
                    configs=wanted.config,
                )
                print(f"Topic [ {wanted.name} ] created with spec: [ {wanted} ]", file=sys.stderr)
            else:
                raise Failed(f"Topic [ {wanted.name} ] does not exist")


async def _found(cluster: KafkaCluster, wanted: _Topic) -> _Topic | None:
    """Return a topic with the configs that are wanted of it; None if it does not exist."""
    topic = (await cluster.topics()).get(wanted.name)
    if topic is None:
        return None
    configs = (await cluster.describe_configs(TOPIC, [wanted.name]))[wanted.name]
    return _Topic(
        wanted.name,
        len(topic.partitions),
        len(topic.partitions[0].replica_nodes),
        {key: configs[key].value or "" for key in wanted.config if key in configs},
    )


# ---------------------------------------------------------------------- other services


def _service_ready(options: argparse.Namespace) -> None:
    service = SERVICES[options.action]
    asyncio.run(_wait_for_port(options.host, options.port, options.timeout))
    scheme = "https" if options.secure else "http"
    request = urllib.request.Request(f"{scheme}://{options.host}:{options.port}/{service.path}")
    username, password = getattr(options, "username", ""), getattr(options, "password", "")
    if username or password:
        token = base64.b64encode(f"{username}:{password}".encode()).decode()
        request.add_header("Authorization", f"Basic {token}")
    context = ssl._create_unverified_context() if options.secure and options.ignore_cert else None
    try:
        with urllib.request.urlopen(request, timeout=_ANSWER_S, context=context) as answer:
            content = answer.read().decode("utf-8", "replace")
            code = answer.status
    except urllib.error.HTTPError as refused:
        code, content = refused.code, refused.read().decode("utf-8", "replace")
    except OSError as error:
        raise Failed(f"{options.host} does not answer on port {options.port}: {error}") from None
    if code // 100 != 2 or service.word not in content:
        raise Failed(f"Unexpected response with code: {code} and content: {content}")


async def _wait_for_port(host: str, port: int, timeout_s: int) -> None:
    """Wait until a port accepts connections. Raises Failed."""
    network = SocketNetwork()
    try:
        async with asyncio.timeout(timeout_s):
            while True:
                with contextlib.suppress(ConnectionFailed):
                    connection = await network.connect(host, port, timeout_ms=1_000 * timeout_s)
                    connection.close()
                    return
                await asyncio.sleep(PAUSE_S)
    except TimeoutError:
        raise Failed(f"{host} cannot be reached on port {port}.") from None


_ACTIONS: Final[Mapping[str, Callable[[argparse.Namespace], None]]] = {
    "zk-ready": _zk_ready,
    "kafka-ready": _kafka_ready,
    "listeners": _listeners,
    "ensure-topic": _ensure_topic,
}

if __name__ == "__main__":
    sys.exit(main())
