"""Starts a Spark Connect server for a test, which is skipped if Maven cannot fetch the server of an older Spark."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from devtools.connect_server import ConnectServer
from understudy.clusters.java import choose_java
from understudy.clusters.processes.kafka_jars import NotFetched
from understudy.spark.versions import this_spark


@contextlib.contextmanager
def connect_server(folder: Path, master: str = "local[2]") -> Iterator[ConnectServer]:
    """Run a server while the block runs.

    Args:
        folder: a folder for its log, made if it is missing.
    """
    folder.mkdir(exist_ok=True)
    with contextlib.ExitStack() as stack:
        try:
            server = stack.enter_context(ConnectServer(folder, choose_java(), master))
        except NotFetched as why:
            pytest.skip(f"{this_spark()} has no server in it: {why}")
        yield server
