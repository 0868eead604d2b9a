"""A real engine prints and keeps lines in the forms that `understudy import-kafka` reads.

It alone sees that Docker and Docker Compose print the forms of `wrapped_logs.py`, which the other tests use.
"""

from __future__ import annotations

import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docker_engine import base_image, skip_or_fail, why_no_base_image
from understudy.history.kafka_logs.entries import log_sources
from understudy.history.kafka_logs.pattern import LinePattern

pytestmark = [pytest.mark.docker, pytest.mark.xdist_group("container-logs")]

TIMEOUT_S = 60
LONG = "orders-0," * 5_000
LINES = """\
import sys
for ms in range(3):
    print(f"[2026-05-01 12:00:00,00{ms}] INFO [Controller id=BROKER] {'LONG' * ms} (kafka.controller.KafkaController)")
    print("java.io.IOException: gone\\n\\tat a.B")
    print()
    sys.stdout.flush()
"""


class Containers:
    """Two containers of a compose project that have printed the lines of brokers 1 and 2, one to a terminal."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.project = f"understudy-logs-{uuid.uuid4().hex[:12]}"
        services = [self._service(1), self._service(2) + "    tty: true\n"]
        (folder / "compose.yml").write_text("services:\n" + "".join(services))

    def _service(self, broker: int) -> str:
        (self.folder / f"lines-{broker}.py").write_text(LINES.replace("LONG", LONG).replace("BROKER", str(broker)))
        return (
            f"  kafka-{broker}:\n    image: {base_image()}\n    network_mode: none\n"
            f"    volumes: ['{self.folder}/lines-{broker}.py:/lines.py:ro']\n    command: [python3, /lines.py]\n"
        )

    def docker(self, *arguments: str) -> bytes:
        """Run the client; return its output, with standard error in it."""
        run = subprocess.run(
            ["docker", *arguments],
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=TIMEOUT_S,
            check=False,
        )
        assert run.returncode == 0, run.stdout[-1_000:]
        return run.stdout

    def compose(self, *arguments: str, ansi: str = "never") -> bytes:
        return self.docker("compose", "--project-name", self.project, "--ansi", ansi, *arguments)

    def container(self, broker: int) -> str:
        return f"{self.project}-kafka-{broker}-1"

    def pasted(self, name: str, output: bytes) -> Path:
        file = self.folder / name
        file.write_bytes(output)
        return file


@pytest.fixture(scope="module")
def containers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Containers]:
    reason = why_no_base_image()
    if reason is not None:
        skip_or_fail(reason)
    containers = Containers(tmp_path_factory.mktemp("logs"))
    try:
        containers.compose("up", "--detach")
        containers.docker("wait", containers.container(1), containers.container(2))
        yield containers
    finally:
        containers.compose("down", "--timeout", "1")


def entries(*files: Path) -> list[list[tuple[str, tuple[str, ...]]]]:
    """The message and the first line of the stack trace of each entry, by broker."""
    sources = log_sources([(None, file) for file in files], LinePattern()).sources
    return [[(one.message, one.rest[:2]) for one in source.entries(LinePattern())] for source in sources]


def expected() -> list[list[tuple[str, tuple[str, ...]]]]:
    trace = ("java.io.IOException: gone", "\tat a.B")
    return [[(f"[Controller id={broker}] {LONG * ms}", trace) for ms in range(3)] for broker in (1, 2)]


@pytest.mark.parametrize(("options", "ansi"), [((), "never"), ((), "always"), (("--timestamps",), "never")])
def test_the_output_of_docker_compose_logs_is_read(containers: Containers, options: tuple[str, ...], ansi: str) -> None:
    output = containers.compose("logs", *options, ansi=ansi)
    assert (b"\x1b[" in output) == (ansi == "always")
    assert entries(containers.pasted("compose.txt", output)) == expected()


@pytest.mark.parametrize("options", [(), ("--timestamps",)])
def test_the_output_of_docker_logs_is_read(containers: Containers, options: tuple[str, ...]) -> None:
    files = [
        containers.pasted(f"{broker}.txt", containers.docker("logs", *options, containers.container(broker)))
        for broker in (1, 2)
    ]
    assert entries(*files) == expected()


def test_the_files_of_the_json_file_driver_are_read(containers: Containers) -> None:
    files = []
    for broker in (1, 2):
        path = containers.docker("inspect", "--format", "{{.LogPath}}", containers.container(broker)).decode().strip()
        try:
            kept = Path(path).read_bytes()
        except OSError as error:
            pytest.skip(f"the engine's log file {path or 'of its driver'} cannot be read here: {error.strerror}")
        files.append(containers.pasted(f"{broker}-json.log", kept))
    assert entries(*files) == expected()
