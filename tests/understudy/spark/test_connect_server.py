"""The Spark Connect server of tests reports at once that it does not start; `test_connect` runs jobs on one."""

from __future__ import annotations

from pathlib import Path

import pytest

from devtools.java_processes import ProcessFailed
from tests.understudy.spark.connect_servers import connect_server


def test_a_server_that_does_not_start_is_reported_at_once(tmp_path: Path) -> None:
    with (
        pytest.raises(ProcessFailed, match=r"the server ended:\n(.|\n)*Could not parse Master URL: 'nowhere'"),
        connect_server(tmp_path, "nowhere"),
    ):
        pass
