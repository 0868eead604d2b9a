"""The run folder with all files of one local cluster, and its `cluster.json`.

RUN/cluster.json                  processes, addresses and paths. It is written once every broker serves requests, so
                                  that a program may wait for it, and replaced in one step at each change
RUN/control.json                  the address and the token of the control port; only its user can read it
RUN/zookeeper/                    the embedded server: zoo.cfg, data/, zookeeper.log
RUN/zookeeper-N/                  instead of it, each server of an ensemble
RUN/broker-N/server.properties    the broker's configuration
RUN/broker-N/{data,events}/       its log directory; its event log
RUN/broker-N/points.json          the armed points
RUN/broker-N/broker.log           its operators' log
RUN/testbed/events/               the event log of the testbed: the injected faults
RUN/run.lock                      of an experiment: held from before its cluster starts until after it has ended
RUN/compose.yaml                  of an experiment in containers: the compose project, removed with the experiment
RUN/cleanup.log                   of an experiment in containers: the log of its cleanup process; usually empty
"""

from __future__ import annotations

import os
import secrets
import time
from pathlib import Path

import msgspec

from understudy.clusters.cluster import ClusterError
from understudy.clusters.processes import linux
from understudy.clusters.processes.processes import RunningProcess

CLUSTER_FILE = "cluster.json"
CLUSTER_FILE_VERSION = 1


class NotARunFolder(Exception):
    """The folder has no readable `cluster.json`. The message names the folder and what to do."""


class ProcessEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A process, by its pid and start time (clock ticks), which together identify it."""

    pid: int
    started: int

    @property
    def is_running(self) -> bool:
        return linux.start_time(self.pid) == self.started


class BrokerEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One broker. Paths are relative to the run folder."""

    id: int
    rack: str | None
    pid: int | None
    """None if no process of the broker runs."""
    started: int
    port: int
    """0 before the first registration."""
    config: str
    log: str
    events: str

    @property
    def is_running(self) -> bool:
        return self.pid is not None and linux.start_time(self.pid) == self.started

    @property
    def state(self) -> str:
        """The state of the process in the operating system now: `running`, `paused` or `gone`."""
        if self.pid is None or not self.is_running:
            return "gone"
        return "paused" if linux.is_paused(self.pid) else "running"


class ZooKeeperEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One server of the cluster's own ensemble."""

    id: int
    address: str
    process: ProcessEntry | None
    """None if it is down."""
    transaction_log: str
    """Folder relative to the run folder."""


class ClusterEntry(msgspec.Struct, frozen=True, kw_only=True):
    """The content of `cluster.json`."""

    version: int
    run: str
    owner: ProcessEntry
    """The process that runs the cluster; all its processes end with this one."""
    zookeeper: str
    """The value of `zookeeper.connect`."""
    zookeeper_process: ProcessEntry | None
    """Process of the cluster's own server; None if the cluster has no own server or an ensemble, or the server is
    down."""
    zookeeper_transaction_log: str | None
    """Folder relative to the run folder; None if the cluster has no own server, or an ensemble."""
    zookeeper_servers: tuple[ZooKeeperEntry, ...] = ()
    """The servers of the cluster's own ensemble; empty if it has a single server or none."""
    bootstrap: str
    brokers: tuple[BrokerEntry, ...]
    events: str
    """The testbed's own event log, relative to the run folder."""

    @property
    def transaction_logs(self) -> tuple[str, ...]:
        """The folders of the transaction logs of the cluster's own servers, relative to the run folder."""
        if self.zookeeper_transaction_log is not None:
            return (self.zookeeper_transaction_log,)
        return tuple(server.transaction_log for server in self.zookeeper_servers)


def new_run_id() -> str:
    """Create a run id from the time (UTC) and a random suffix, so that ids are unique and sort by time."""
    return f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{secrets.token_hex(2)}"


def write_cluster_file(folder: Path, cluster: ClusterEntry) -> None:
    """Replace `cluster.json` in one step: a reader finds either the old content or the new one."""
    replace_file(folder / CLUSTER_FILE, msgspec.json.format(msgspec.json.encode(cluster), indent=2) + b"\n")


def claim(directory: Path) -> ClusterEntry | None:
    """Create the run folder, and remove the `cluster.json` of an earlier cluster; return its content, if there is one.

    Raises:
        ClusterError: the folder cannot be created, or a cluster of another process runs in it.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ClusterError(f"{directory} cannot be a run folder: {error.strerror}; give another") from None
    try:
        earlier = read_cluster_file(directory)
    except NotARunFolder:
        return None
    if earlier.owner.is_running and earlier.owner != this_process():
        raise ClusterError(
            f"{directory} is in use by a cluster that process {earlier.owner.pid} runs; end it or give another folder"
        )
    (directory / CLUSTER_FILE).unlink(missing_ok=True)
    return earlier


def read_cluster_file(folder: Path) -> ClusterEntry:
    """Read the `cluster.json` in `folder`.

    Raises:
        NotARunFolder: there is no such file, or it cannot be read.
    """
    try:
        text = (folder / CLUSTER_FILE).read_bytes()
    except OSError as error:
        raise NotARunFolder(
            f"{folder} is no run folder: {CLUSTER_FILE}: {error.strerror}; give the one that `understudy up` named"
        ) from None
    try:
        cluster = msgspec.json.decode(text, type=ClusterEntry)
    except msgspec.DecodeError as error:
        raise NotARunFolder(f"{folder / CLUSTER_FILE} cannot be read: {error}") from None
    if cluster.version != CLUSTER_FILE_VERSION:
        raise NotARunFolder(
            f"{folder / CLUSTER_FILE} has version {cluster.version}, and this program reads {CLUSTER_FILE_VERSION}; "
            "use the version of understudy that wrote it"
        )
    return cluster


def replace_file(path: Path, data: bytes) -> None:
    """Replace a file in one step."""
    beside = path.with_name(f".{path.name}.new")
    beside.write_bytes(data)
    beside.replace(path)


def process_entry(child: RunningProcess) -> ProcessEntry:
    return ProcessEntry(pid=child.pid, started=child.started)


def this_process() -> ProcessEntry:
    return ProcessEntry(pid=os.getpid(), started=linux.start_time(os.getpid()) or 0)
