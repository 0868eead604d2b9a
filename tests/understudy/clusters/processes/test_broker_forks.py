"""`BrokerForks`: brokers that are forks of one process; their signals, exit codes, environment and end."""

from __future__ import annotations

import errno
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from understudy.brokers.config.properties import format_properties
from understudy.clusters.cluster import ClusterError
from understudy.clusters.processes import broker_forks, linux
from understudy.clusters.processes.broker_forks import BrokerForks, Fork, can_fork_brokers
from understudy.clusters.processes.processes import ChildProcess, ProcessDied

pytestmark = [
    pytest.mark.skipif(not can_fork_brokers(), reason="this system has no pidfds"),
]
PATIENCE_S = 60.0


@pytest.fixture(scope="module")
def forks() -> Iterator[BrokerForks]:
    found = BrokerForks()
    yield found
    found.close()


@pytest.fixture
def silent() -> Iterator[socket.socket]:
    """What accepts connections and never answers: a broker that takes it for ZooKeeper waits."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening


def fork(forks: BrokerForks, folder: Path, silent: socket.socket | None = None, **environment: str) -> Fork:
    """Fork a broker whose configuration is refused, or that waits for ZooKeeper."""
    properties = {"broker.id": "1", "log.dirs": str(folder / "data")}
    if silent is None:
        properties["process.roles"] = "broker"
    else:
        properties["zookeeper.connect"] = f"127.0.0.1:{silent.getsockname()[1]}"
        properties["zookeeper.connection.timeout.ms"] = "600000"
    (folder / "server.properties").write_text(format_properties(properties))
    return forks.fork(
        "broker-1",
        "server.properties",
        log=folder / "broker.log",
        directory=folder,
        environment={**os.environ, **environment},
    )


@pytest.mark.parametrize("refusal", [errno.ENOSYS, errno.EPERM])
def test_a_system_that_refuses_pidfds_has_no_forks(monkeypatch: pytest.MonkeyPatch, refusal: int) -> None:
    def refuse(_pid: int) -> int:
        raise OSError(refusal, os.strerror(refusal))

    monkeypatch.setattr(os, "pidfd_open", refuse)
    assert not can_fork_brokers()


def open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_a_template_that_cannot_be_started_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "no-such-python"))
    before = open_descriptors()
    with pytest.raises(FileNotFoundError):
        BrokerForks()
    assert (open_descriptors(), list(tmp_path.iterdir())) == (before, [])


def test_a_fork_reads_its_configuration_and_its_exit_code_is_known(forks: BrokerForks, tmp_path: Path) -> None:
    process = fork(forks, tmp_path)
    assert process.wait(PATIENCE_S)
    assert (process.exit_code, process.is_running) == (1, False)
    assert "ZooKeeper mode only" in process.log.read_text()
    with pytest.raises(ProcessDied, match=r"(?s)broker-1 ended with exit code 1.*ZooKeeper mode only"):
        process.check()
    process.send(signal.SIGKILL)  # harmless
    process.kill()


def test_a_fork_is_paused_resumed_and_killed(forks: BrokerForks, tmp_path: Path, silent: socket.socket) -> None:
    process = fork(forks, tmp_path, silent)
    assert process.is_running
    assert linux.start_time(process.pid) == process.started
    process.pause()
    was_paused = process.is_paused
    process.resume()
    assert (was_paused, process.is_paused) == (True, False)
    process.kill()
    assert (process.exit_code, linux.start_time(process.pid)) == (-signal.SIGKILL, None)


def test_a_fork_that_has_ended_before_it_is_known_is_no_other_process(forks: BrokerForks, tmp_path: Path) -> None:
    ended = fork(forks, tmp_path)
    assert ended.wait(PATIENCE_S)
    status, written = os.pipe()
    os.write(written, (7).to_bytes(4, "big"))
    os.close(written)
    process = Fork("broker-1", tmp_path / "broker.log", os.getpid(), status)  # the pid is used again
    assert (process.exit_code, process.started) == (7, 0)
    process.send(signal.SIGKILL)


def test_a_fork_that_ends_meanwhile_is_not_paused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker_forks, "_PAUSE_TIMEOUT_S", 0.0)
    status, written = os.pipe()
    process = Fork("broker-1", tmp_path / "broker.log", 2**22, status)  # all pids are smaller
    process.pause()
    os.close(written)
    assert not process.is_running


def test_a_fork_has_no_exit_code_before_the_kernel_has_killed_it(tmp_path: Path) -> None:
    """The pipe of a template that ends is closed before its forks are killed; here 0.2 s before."""
    sleeper = [sys.executable, "-c", "import time; time.sleep(600)"]
    child = ChildProcess("sleeper", sleeper, log=tmp_path / "broker.log", directory=tmp_path)
    status, written = os.pipe()
    process = Fork("broker-1", child.log, child.pid, status)
    os.close(written)
    kernel = threading.Timer(0.2, child.send, [signal.SIGKILL])
    kernel.start()
    assert process.exit_code == -signal.SIGKILL
    assert linux.start_time(process.pid) is None
    kernel.join()
    child.kill()


def test_a_fork_has_the_environment_of_its_request_and_leads_a_session(
    forks: BrokerForks, tmp_path: Path, silent: socket.socket
) -> None:
    process = fork(forks, tmp_path, silent, LOG_FORMAT="no-such-format")
    assert process.wait(PATIENCE_S)
    assert "no-such-format" in process.log.read_text()
    process = fork(forks, tmp_path, silent)
    deadline = time.monotonic() + PATIENCE_S
    while os.getsid(process.pid) != process.pid and time.monotonic() < deadline:
        time.sleep(0.01)
    assert os.getsid(process.pid) == process.pid
    process.kill()


def test_the_environment_of_a_fork_may_have_bytes_that_are_not_utf_8(
    forks: BrokerForks, tmp_path: Path, silent: socket.socket
) -> None:
    process = fork(forks, tmp_path, silent, LATIN=os.fsdecode(b"caf\xe9"))
    silent.settimeout(PATIENCE_S)
    with silent.accept()[0]:  # it runs the broker's code
        process.send(signal.SIGKILL)
    assert process.wait(PATIENCE_S)


def test_a_request_that_is_too_large_is_refused(forks: BrokerForks, tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match=r"broker-1 was not forked: sending a request of \d+ bytes: .*too long"):
        fork(forks, tmp_path, LARGE="x" * 2**24)


def test_a_fork_that_fails_leaves_nothing_open(forks: BrokerForks, tmp_path: Path) -> None:
    before = open_descriptors()
    with pytest.raises(FileNotFoundError):
        forks.fork("broker-1", "", log=tmp_path / "no" / "log", directory=tmp_path, environment={})
    assert open_descriptors() == before


def test_a_fork_that_comes_too_late_is_killed(
    forks: BrokerForks, tmp_path: Path, silent: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    forks._template.pause()
    monkeypatch.setattr(broker_forks, "_FORK_TIMEOUT_S", 0.0)
    with pytest.raises(ClusterError, match="was not forked within 0 s"):
        fork(forks, tmp_path, silent)
    monkeypatch.undo()
    forks._template.resume()
    process = fork(forks, tmp_path, silent)
    deadline = time.monotonic() + PATIENCE_S
    while linux.children(forks._template.pid) != (process.pid,) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert linux.children(forks._template.pid) == (process.pid,)
    process.kill()


def test_a_fork_has_nothing_open_of_the_template_and_of_other_forks(
    forks: BrokerForks, tmp_path: Path, silent: socket.socket
) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    processes = [fork(forks, tmp_path / name, silent) for name in ("a", "b")]
    silent.settimeout(PATIENCE_S)
    accepted = [silent.accept()[0] for _ in processes]  # both run the broker's code; a closed one would connect again
    for process, name in zip(processes, ("a", "b"), strict=True):
        opened = {path.name: str(path.readlink()) for path in Path(f"/proc/{process.pid}/fd").iterdir()}
        log = str(tmp_path / name / "broker.log")
        assert (opened.pop("0"), opened.pop("1"), opened.pop("2")) == (os.devnull, log, log)
        assert not [target for target in opened.values() if target.startswith(("pipe:", "anon_inode:[pidfd]"))]
        process.kill()
    for connection in accepted:
        connection.close()


def test_a_template_that_is_about_to_end_is_the_reason_why_it_does_not_fork(tmp_path: Path) -> None:
    forks = BrokerForks()
    forks._requests.shutdown(socket.SHUT_RDWR)  # it ends once it has done its imports
    with pytest.raises(ClusterError, match="broker-1 was not forked: the template of the brokers ended with exit code"):
        fork(forks, tmp_path)
    forks.close()


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM])
def test_forks_end_with_their_template(tmp_path: Path, silent: socket.socket, end: signal.Signals) -> None:
    forks = BrokerForks()
    process = fork(forks, tmp_path, silent)
    forks._template.send(end)
    assert process.wait(PATIENCE_S)
    assert process.exit_code == -signal.SIGKILL
    assert forks._template.wait(PATIENCE_S)
    with pytest.raises(ClusterError, match="broker-1 was not forked: the template of the brokers ended with SIG"):
        fork(forks, tmp_path)
    forks.close()


CLUSTERS_ONE_AFTER_THE_OTHER = """
from pathlib import Path
from understudy.clusters.processes.local_cluster import LocalCluster
for _ in range(2):
    with LocalCluster(brokers=2) as cluster:
        for broker in cluster.brokers:
            print(Path(f"/proc/{broker.process.process.pid}/stat").read_text().rpartition(")")[2].split()[1])
"""


def test_the_clusters_of_a_process_share_a_template_that_ends_with_it() -> None:
    done = subprocess.run(
        [sys.executable, "-P", "-c", CLUSTERS_ONE_AFTER_THE_OTHER], capture_output=True, text=True, check=True
    )
    assert len(done.stdout.split()) == 4
    (template,) = set(done.stdout.split())
    assert linux.start_time(int(template)) is None
