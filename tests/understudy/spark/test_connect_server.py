"""The Spark Connect server of tests reports at once that it does not start; `test_connect` runs jobs on one."""

from __future__ import annotations

from pathlib import Path

import pytest

from devtools.connect_server import ConnectServer
from devtools.java_processes import ProcessFailed
from understudy.clusters.java import choose_java


def test_a_server_that_does_not_start_is_reported_at_once(tmp_path: Path) -> None:
    with (
        pytest.raises(ProcessFailed, match=r"the server ended:\n(.|\n)*Could not parse Master URL: 'nowhere'"),
        ConnectServer(tmp_path, choose_java(), "nowhere"),
    ):
        pass
