"""The run folder: where everything of one cluster on this machine lies, and `cluster.json`, which describes it.

RUN/cluster.json                  processes, addresses, paths. It appears once every broker serves requests, so that a
                                  program may wait for it; it is replaced as a whole at each change
RUN/zookeeper/                    the embedded server: zoo.cfg, data/, zookeeper.log
RUN/broker-N/server.properties    its configuration
RUN/broker-N/{data,events}/       its log directory; its event log
RUN/broker-N/points.json          points an experiment has armed
RUN/broker-N/broker.log           its operator's log
RUN/testbed/events/               what was done to whom, and when
"""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from understudy.testbed import linux
from understudy.testbed.processes import ChildProcess

CLUSTER_FILE = "cluster.json"
CLUSTER_FILE_VERSION = 1


class NotARunFolder(Exception):
    """There is no readable `cluster.json`. The message names the folder and what to do."""


class ProcessEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A process by pid and start time (clock ticks), which together are never given out twice."""

    pid: int
    started: int

    @property
    def is_running(self) -> bool:
        return linux.start_time(self.pid) == self.started


class BrokerEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One broker; paths are relative to the run folder."""

    id: int
    rack: str | None
    pid: int | None
    """None while it is down on purpose."""
    started: int
    port: int
    """0 until it has registered for the first time."""
    config: str
    log: str
    events: str

    @property
    def is_running(self) -> bool:
        return self.pid is not None and linux.start_time(self.pid) == self.started

    @property
    def state(self) -> str:
        """`running`, `paused` or `gone`, as the operating system has it now."""
        if self.pid is None or not self.is_running:
            return "gone"
        return "paused" if linux.is_paused(self.pid) else "running"


class ClusterEntry(msgspec.Struct, frozen=True, kw_only=True):
    """What `cluster.json` says."""

    version: int
    run: str
    owner: ProcessEntry
    """The process that runs the cluster, and with which everything ends."""
    zookeeper: str
    """As in `zookeeper.connect`."""
    zookeeper_process: ProcessEntry | None
    """None where the server is not ours, or down."""
    zookeeper_transaction_log: str | None
    """Relative to the run folder; None where the server is not ours."""
    bootstrap: str
    brokers: tuple[BrokerEntry, ...]
    events: str
    """The testbed's own event log, relative to the run folder."""


def write_cluster_file(folder: Path, cluster: ClusterEntry) -> None:
    """Replace `cluster.json`: a reader sees the old one or the new one, never half of it."""
    write_whole(folder / CLUSTER_FILE, msgspec.json.format(msgspec.json.encode(cluster), indent=2) + b"\n")


def read_cluster_file(folder: Path) -> ClusterEntry:
    """What `cluster.json` in `folder` says.

    Raises:
        NotARunFolder: there is none, or it is not one of ours.
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


def withdraw_cluster_file(folder: Path) -> None:
    """Remove `cluster.json`. Harmless where there is none."""
    (folder / CLUSTER_FILE).unlink(missing_ok=True)


def write_whole(path: Path, data: bytes) -> None:
    """Replace a file in one step."""
    beside = path.with_name(f".{path.name}.new")
    beside.write_bytes(data)
    beside.replace(path)


def process_entry(child: ChildProcess) -> ProcessEntry:
    return ProcessEntry(pid=child.pid, started=child.started)


def this_process() -> ProcessEntry:
    return ProcessEntry(pid=os.getpid(), started=linux.start_time(os.getpid()) or 0)
