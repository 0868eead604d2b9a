"""The compose file and the image: every key and flag in them is one that our programs read.

What can be proven without an engine is proven here, down to running our programs with nothing but what the image holds.
The tests marked `docker` prove the packaging itself, where an engine answers.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from brokers.__main__ import read_properties
from brokers.config.kafka_config import TABLE, KafkaConfig, unknown_keys
from foundation.eventlog.reader import read
from foundation.eventlog.records import ControllerElected
from tests.docker_engine import why_no_compose
from understudy.cli.main import parser
from understudy.testbed.cluster_view import ClusterView
from understudy.testbed.embedded_zookeeper import EmbeddedZooKeeper, zookeeper_jars

ROOT = Path(__file__).resolve().parents[2]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
BROKERS = [name for name in SERVICES if name.startswith("broker-")]
SERVERS = [*BROKERS, "zookeeper"]
DOCKERFILE = (ROOT / "Dockerfile").read_text()
RUN_FOLDER = "./run/compose:/run/understudy"


def command_line(service: str) -> list[str]:
    return [*SERVICES[service].get("entrypoint", ()), *SERVICES[service].get("command", ())]


def overrides(broker: str) -> dict[str, str]:
    """What the broker of this service reads, by its own reading of the command line."""
    line = command_line(broker)
    assert line[:5] == ["python", "-P", "-m", "brokers", "/dev/null"]
    flags, values = line[5::2], line[6::2]
    assert set(flags) == {"--override"}
    assert len(flags) == len(values)
    return read_properties(Path("/dev/null"), values)


def milliseconds(duration: str) -> int:
    found = re.fullmatch(r"(\d+)s", duration)
    assert found is not None, f"{duration!r} is not in seconds"
    return int(found[1]) * 1000


# ------------------------------------------------------------------ the compose file


@pytest.mark.parametrize("broker", BROKERS)
def test_every_key_of_a_broker_is_one_it_acts_upon(broker: str) -> None:
    properties = overrides(broker)
    assert unknown_keys(properties) == ()
    assert [key for key in properties if key not in TABLE] == []
    assert KafkaConfig.from_properties(properties).broker_id == int(broker.removeprefix("broker-"))


@pytest.mark.parametrize("broker", BROKERS)
def test_clients_inside_and_outside_find_each_broker_where_it_says_it_is(broker: str) -> None:
    config = KafkaConfig.from_properties(overrides(broker))
    internal, external = config.advertised_endpoints()
    assert (internal.listener, internal.host, internal.port) == ("INTERNAL", broker, 9092)
    assert (external.listener, external.host, external.port) == ("EXTERNAL", "localhost", 19090 + config.broker_id)
    assert config.inter_broker_listener == "INTERNAL"
    bound = {endpoint.listener: endpoint for endpoint in config.bound_endpoints()}
    assert {endpoint.host for endpoint in bound.values()} == {"0.0.0.0"}
    assert bound["EXTERNAL"].port == external.port
    assert SERVICES[broker]["ports"] == [f"127.0.0.1:{external.port}:{external.port}"]


def test_brokers_differ_in_what_must_be_theirs_alone_and_share_the_rest() -> None:
    own = ("broker.id", "broker.rack", "listeners", "advertised.listeners", "understudy.events.dir")
    found = [overrides(broker) for broker in BROKERS]
    for key in own:
        assert len({properties[key] for properties in found}) == 3, key
    shared = [{key: value for key, value in properties.items() if key not in own} for properties in found]
    assert shared[0] == shared[1] == shared[2]
    volumes = [SERVICES[name]["volumes"][0].partition(":")[0] for name in SERVERS]
    assert sorted(volumes) == sorted(COMPOSE["volumes"])


@pytest.mark.parametrize("broker", BROKERS)
def test_event_logs_are_reachable_from_the_host(broker: str) -> None:
    assert SERVICES[broker]["volumes"] == [f"{broker}:/var/lib/understudy", RUN_FOLDER]
    assert overrides(broker)["understudy.events.dir"] == f"/run/understudy/{broker}/events"
    assert overrides(broker)["log.dirs"].startswith("/var/lib/understudy/")


def test_the_zookeeper_service_is_a_command_line_we_understand() -> None:
    program, *line = command_line("zookeeper")
    options = parser().parse_args(line)
    assert (program, options.verb, options.host, options.port) == ("understudy", "zookeeper", "0.0.0.0", 2181)
    assert str(options.dir) == SERVICES["zookeeper"]["volumes"][0].partition(":")[2]
    assert {overrides(broker)["zookeeper.connect"] for broker in BROKERS} == {f"zookeeper:{options.port}"}
    assert SERVICES["zookeeper"]["ports"] == [f"127.0.0.1:12181:{options.port}"]


@pytest.mark.parametrize("service", SERVERS)
def test_health_is_asked_by_a_command_line_we_understand(service: str) -> None:
    check = SERVICES[service]["healthcheck"]
    kind, program, *line = check["test"]
    options = parser().parse_args(line)
    assert (kind, program, options.verb) == ("CMD", "understudy", "health")
    assert options.address == ("127.0.0.1", 2181 if service == "zookeeper" else 9092)
    assert options.zookeeper == (service == "zookeeper")
    from understudy.cli.health import TIMEOUT_MS

    assert milliseconds(check["timeout"]) > TIMEOUT_MS, "the question must end by itself, with its reason"
    assert {"interval", "retries", "start_period"} <= set(check)


def test_nobody_starts_before_what_it_needs() -> None:
    for broker in BROKERS:
        assert SERVICES[broker]["depends_on"] == {
            "zookeeper": {"condition": "service_healthy"},
            "run-folder": {"condition": "service_completed_successfully"},
        }
    assert SERVICES["run-folder"]["volumes"] == [RUN_FOLDER]


@pytest.mark.parametrize("service", SERVERS)
def test_servers_are_nobody_and_leave_in_order(service: str) -> None:
    definition = SERVICES[service]
    assert definition["init"] is True
    assert definition["user"] == "1000:1000"
    assert definition["cap_drop"] == ["ALL"]
    assert definition["security_opt"] == ["no-new-privileges:true"]
    grace = milliseconds(definition["stop_grace_period"])
    if service in BROKERS:
        config = KafkaConfig.from_properties(overrides(service))
        assert grace >= config.controlled_shutdown_max_retries * config.controlled_shutdown_retry_backoff_ms + 10_000


def test_nothing_is_published_beyond_the_loopback_interface() -> None:
    published = [port for service in SERVICES.values() for port in service.get("ports", ())]
    assert len(published) == 4
    assert all(port.startswith("127.0.0.1:") for port in published)


def test_what_the_head_of_the_file_recommends_exists() -> None:
    text = (ROOT / "docker-compose.yml").read_text()
    recommended = re.findall(r"^#   \.venv/bin/understudy (.*)$", text, re.MULTILINE)
    assert len(recommended) >= 1
    verbs = next(action for action in parser()._actions if action.dest == "verb").choices
    assert verbs is not None
    for line in recommended:
        if shlex.split(line)[0] in verbs:
            parser().parse_args(shlex.split(line))
    assert "status" in {shlex.split(line)[0] for line in recommended}


@pytest.mark.skipif(why_no_compose() is not None, reason=f"docker compose config: {why_no_compose()}")
def test_compose_itself_reads_the_file() -> None:
    answer = subprocess.run(
        ["docker", "compose", "config", "--quiet"], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert (answer.returncode, answer.stderr) == (0, "")


# ------------------------------------------------------------------ the image


def image_packages() -> list[str]:
    found = re.search(r"pip install --constraint constraints\.txt ((?:[a-z0-9]+ ?)+)\n\nCOPY", DOCKERFILE)
    assert found is not None
    return found[1].split()


def test_the_image_stands_on_one_base_and_ends_as_nobody() -> None:
    assert set(re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE)) == {"python:3.11-slim"}
    final = DOCKERFILE[DOCKERFILE.rindex("FROM ") :]
    assert re.findall(r"^USER (\S+)", final, re.MULTILINE) == ["understudy"]
    assert "--uid 1000 " in final
    assert {service["image"] for service in SERVICES.values()} == {"understudy"}


def test_the_image_holds_all_run_time_dependencies_but_spark() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needed = {re.split(r"[<>=]", dependency)[0] for dependency in project["dependencies"]}
    assert set(image_packages()) == needed - {"pyspark"}


def test_what_is_copied_into_the_image_is_let_through_and_nothing_else() -> None:
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    let_through = {line[1:] for line in lines if line.startswith("!")}
    copied = [
        line.split()[1:-1] for line in DOCKERFILE.splitlines() if line.startswith("COPY ") and "--from=" not in line
    ]
    assert let_through == {source for sources in copied for source in sources}
    assert "*" in lines
    assert all((ROOT / name).exists() for name in let_through - {"README.md"})


def test_the_jars_are_those_our_server_asks_for() -> None:
    """The build asks the one list there is, and the run looks where the build has put them."""
    assert "from understudy.testbed.embedded_zookeeper import zookeeper_jars" in DOCKERFILE
    assert "UNDERSTUDY_ZOOKEEPER_JARS=/opt/zookeeper" in DOCKERFILE
    assert "COPY --from=build /opt/zookeeper /opt/zookeeper" in DOCKERFILE


@pytest.fixture
def image(tmp_path: Path) -> dict[str, str]:
    """An environment in which Python finds what the image holds and nothing else: no Spark, no test tools."""
    packages, jars = tmp_path / "packages", tmp_path / "jars"
    packages.mkdir()
    jars.mkdir()
    installed = Path(yaml.__file__).parents[1]
    for name in image_packages():
        (packages / name).symlink_to(installed / name)
    for name in ("foundation", "controller", "brokers", "understudy"):
        (packages / name).symlink_to(ROOT / name)
    for jar in zookeeper_jars():
        shutil.copy(jar, jars)
    return {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(packages),
        "UNDERSTUDY_ZOOKEEPER_JARS": str(jars),
        "LC_ALL": "C.UTF-8",
    }


def in_image(image: dict[str, str], module: str, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-S", "-P", "-m", module, *arguments]
    return subprocess.Popen(command, env=image, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


@pytest.mark.slow
def test_spark_is_not_in_the_image(image: dict[str, str]) -> None:
    with in_image(image, "pyspark") as program:
        assert program.stdout is not None
        assert "No module named pyspark" in program.stdout.read()


@pytest.mark.slow
def test_zookeeper_runs_with_what_the_image_holds(image: dict[str, str], tmp_path: Path) -> None:
    with in_image(image, "understudy.cli.main", "zookeeper", "--port", "0", "--dir", str(tmp_path / "data")) as server:
        assert server.stdout is not None
        said = server.stdout.readline()
        address = re.match(r"ZooKeeper at (\S+), data in ", said)
        assert address is not None, said + server.stdout.read()
        with in_image(image, "understudy.cli.main", "health", "--zookeeper", address[1]) as health:
            assert health.wait(timeout=60) == 0
        server.send_signal(signal.SIGTERM)
        assert server.wait(timeout=60) == 0


@pytest.mark.slow
def test_a_broker_runs_with_what_the_image_holds_and_compose_gives_it(
    image: dict[str, str], tmp_path: Path, zookeeper: EmbeddedZooKeeper
) -> None:
    """Its very overrides, but for addresses and folders of this machine."""
    here = {
        "zookeeper.connect": f"{zookeeper.connect_string}/compose-{time.monotonic_ns()}",
        "listeners": "INTERNAL://127.0.0.1:0,EXTERNAL://127.0.0.1:0",
        "advertised.listeners": "INTERNAL://127.0.0.1:0,EXTERNAL://localhost:0",
        "log.dirs": str(tmp_path / "data"),
        "understudy.events.dir": str(tmp_path / "run" / "broker-1" / "events"),
    }
    flags = [f"--override={key}={value}" for key, value in (overrides("broker-1") | here).items()]
    with ClusterView(here["zookeeper.connect"]) as view, in_image(image, "brokers", "/dev/null", *flags) as broker:
        assert broker.stdout is not None
        _eventually(lambda: view.controller_id() == 1 or broker.poll() is not None, "broker 1 is controller")
        assert broker.poll() is None, broker.stdout.read()
        registered = view.brokers()[1]
        with in_image(image, "understudy.cli.main", "health", f"{registered.host}:{registered.port}") as health:
            assert health.wait(timeout=60) == 0
        broker.send_signal(signal.SIGTERM)
        assert broker.wait(timeout=60) == 0
    assert any(isinstance(record.data, ControllerElected) for record in read([tmp_path / "run"]).records)


def _eventually(predicate: Callable[[], object], what: str, timeout_s: float = 60) -> None:
    deadline = time.monotonic() + timeout_s
    while not predicate():
        assert time.monotonic() < deadline, f"not within {timeout_s} s: {what}"
        time.sleep(0.05)


# ------------------------------------------------------------------ the engine


class Engine(NamedTuple):
    compose: list[str]
    """The command line of compose for this file."""
    since_ms: float
    """When it began: ./run/compose may hold records of earlier runs."""


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    """The whole file, up and healthy; its containers and volumes are gone afterwards."""
    from testcontainers.compose import DockerCompose

    since_ms = time.time() * 1000
    with DockerCompose(ROOT, compose_file_name="docker-compose.yml", build=True, wait=True) as compose:
        yield Engine(compose.compose_command_property, since_ms)


@pytest.mark.slow
@pytest.mark.docker
@pytest.mark.timeout(1800)
def test_a_killed_container_is_succeeded_and_its_event_log_can_be_read(engine: Engine) -> None:
    with ClusterView("localhost:12181") as view:
        _eventually(lambda: len(view.brokers()) == 3 and view.controller_id(), "three brokers and a controller")
        before = view.picture()
        assert before.controller is not None
        subprocess.run([*engine.compose, "kill", f"broker-{before.controller}"], cwd=ROOT, check=True)
        _eventually(
            lambda: view.picture().controller_epoch > before.controller_epoch, "another container is controller"
        )
        after = view.picture()
    assert after.controller not in (None, before.controller)
    records = read([ROOT / "run" / "compose"]).records
    elections = {
        (record.data.epoch, record.data.broker_id)
        for record in records
        if isinstance(record.data, ControllerElected) and record.wall_ms >= engine.since_ms
    }
    assert {(before.controller_epoch, before.controller), (after.controller_epoch, after.controller)} <= elections
    subprocess.run([*engine.compose, "start", f"broker-{before.controller}"], cwd=ROOT, check=True)


@pytest.mark.slow
@pytest.mark.docker
@pytest.mark.timeout(1800)
def test_a_client_on_the_host_reaches_every_container_where_metadata_says_it_is(engine: Engine) -> None:
    import asyncio

    from brokers.machine.socket_network import SocketNetwork
    from understudy.admin_client import AdminClient

    client = AdminClient(SocketNetwork(), [f"localhost:{19090 + broker}" for broker in (1, 2, 3)])
    metadata = asyncio.run(client.metadata())
    advertised = {broker.node_id: (broker.host, broker.port) for broker in metadata.brokers}
    assert advertised
    assert all(address == ("localhost", 19090 + broker) for broker, address in advertised.items())
