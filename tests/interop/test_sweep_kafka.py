"""A sweep runs a failover in each mode; the numbers of `compare` are what the nodes' own logs say."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import redirect_stdout
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.interop.conftest import TIMEOUT_S, skip_or_fail
from tests.shares import only_nightly
from understudy.cli.check import check_run_folder
from understudy.cli.main import main
from understudy.clusters.processes.kafka_jars import NEWEST_VERSION, VERSION, NotFetched, kafka_libs_of
from understudy.foundation.eventlog.records import FaultInjected, StepReached
from understudy.history.metrics.metrics import measure
from understudy.history.reading.reader import read

pytestmark = [
    pytest.mark.interop,
    pytest.mark.timeout(TIMEOUT_S),
    pytest.mark.xdist_group("sweep-kafka"),
    only_nightly("kafka-sweeps"),
]

RESOLUTION_MS = 1.0
"""The resolution of a log line and of a transaction."""
TIMEOUT_MS = 4_000
KRAFT_VERSIONS = (VERSION, NEWEST_VERSION)


class Line(NamedTuple):
    """A line of a log, with its time in milliseconds since 1970."""

    file: Path
    ms: float
    text: str


class Swept(NamedTuple):
    """The folder of a sweep, and the page of `compare` about it."""

    folder: Path
    page: dict[str, Any]

    def run(self, software: str) -> Path:
        (found,) = self.folder.glob(f"{software}-b3-*")
        return found

    def values(self, mode: str, version: str) -> dict[str, float | None]:
        """The only value of each quantity of a mode and a version of Kafka."""
        (group,) = (
            group
            for group in self.page["groups"]
            if group["settings"]["mode"] == mode and group["settings"]["software_version"] == version
        )
        assert (group["runs"], group["failovers"]) == (1, 1)
        return {name: found["max"] for name, found in group["quantities"].items()}


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Swept:
    try:
        for version in KRAFT_VERSIONS:
            kafka_libs_of(version)
    except NotFetched as why:
        skip_or_fail(why)
    folder = tmp_path_factory.mktemp("sweep") / "runs"
    kafkas = ["--kafka-zk", "--kafka-kraft", ",".join(KRAFT_VERSIONS)]
    size = ["--partitions", "6", "--session-timeout-ms", str(TIMEOUT_MS), "--repeat", "1"]
    assert main(["sweep", "--processes", *kafkas, *size, "--dir", str(folder)]) == 0
    printed = StringIO()
    with redirect_stdout(printed):
        assert main(["compare", str(folder), "--by", "mode,software_version", "--json"]) == 0
    return Swept(folder, json.loads(printed.getvalue()))


def lines_with(folder: Path, files: str, pattern: str) -> list[Line]:
    """The lines of some logs that contain a pattern, in the order of their times."""

    def found() -> Iterator[Line]:
        for file in folder.glob(files):
            for text in file.read_text(errors="replace").splitlines():
                if re.search(pattern, text) and (dated := re.match(r"\[(.{19}),(\d{3})\] ", text)):
                    at = datetime.strptime(f"{dated[1]}.{dated[2]}", "%Y-%m-%d %H:%M:%S.%f").replace(tzinfo=UTC)
                    yield Line(file, at.timestamp() * 1000, text)

    return sorted(found(), key=lambda line: line.ms)


def times_of_testbed(run: Path) -> tuple[float, float]:
    """When the fault was injected, and when the cluster was whole again."""
    records = read([run]).records
    (fault,) = (r.wall_ms for r in records if isinstance(r.data, FaultInjected) and r.data.fault == "kill")
    (end,) = (r.wall_ms for r in records if isinstance(r.data, StepReached) and r.data.step == "end")
    return fault, end


def test_every_mode_has_a_run_without_damage_or_missing_records(swept: Swept) -> None:
    groups = [(group["settings"]["mode"], group["runs"]) for group in swept.page["groups"]]
    assert groups == [("kafka-kraft", 1)] * 2 + [("kafka-zk", 1), ("understudy", 1)]
    assert swept.page["incomplete"]["runs"] == []
    for run in swept.folder.iterdir():
        assert read([run]).findings == ()
        assert check_run_folder(run).exit_code == 0


def test_the_failover_in_zookeeper_mode_is_what_the_controllers_log_says(swept: Swept) -> None:
    run = swept.run(f"kafka-zk-{VERSION}")
    values = swept.values("kafka-zk", VERSION)
    fault, end = times_of_testbed(run)
    logs = "kafka/broker-*/logs/controller.log"
    elected = lines_with(run, logs, "successfully elected as the controller")[-1]
    read_up = lines_with(run, logs, "Current list of topics in the cluster")[-1]
    ready = lines_with(run, logs, "Ready to serve as the new controller")[-1]
    assert elected.file == read_up.file == ready.file
    assert fault < elected.ms
    assert values["outage"] == pytest.approx(ready.ms - fault, abs=RESOLUTION_MS)
    detection, election, takeover, reading = (
        values[name] or 0.0 for name in ("detection", "election", "takeover", "reading")
    )
    assert detection + election + takeover == pytest.approx(values["outage"], abs=RESOLUTION_MS)
    # ZooKeeper's transaction is before the line about it.
    assert detection + election <= elected.ms - fault + RESOLUTION_MS
    assert ready.ms - read_up.ms == pytest.approx(takeover - reading, abs=RESOLUTION_MS)
    assert takeover >= ready.ms - elected.ms - RESOLUTION_MS
    assert values["propagation"] is not None
    assert 0 < (values["leaderless"] or 0.0) * 1000 <= 6 * (end - fault)


@pytest.mark.parametrize("version", KRAFT_VERSIONS)
def test_the_failover_in_kraft_mode_is_what_the_nodes_logs_say(swept: Swept, version: str) -> None:
    run = swept.run(f"kafka-kraft-{version}")
    values = swept.values("kafka-kraft", version)
    fault, _ = times_of_testbed(run)
    logs = "kafka/node-*/server.log"
    sought = lines_with(run, logs, "Become candidate due to|Transitioning to Prospective state due to")
    noticed = next(line for line in sought if line.ms > fault)
    active = lines_with(run, logs, "Becoming the active controller at epoch")[-1]
    (fenced,) = lines_with(run, logs, "Fencing broker .* because its session has timed out")
    assert values["detection"] == pytest.approx(noticed.ms - fault, abs=RESOLUTION_MS)
    assert values["outage"] == pytest.approx(active.ms - fault, abs=RESOLUTION_MS)
    assert values["reading"] is values["propagation"] is None
    assert set(swept.page["modes"]["kafka-kraft"]["lacking"]) == {"reading", "propagation"}
    # The new controller counts the session of the lost broker from its own beginning.
    metrics = measure("kraft", read([run]).records)
    led = [row.leaderless_ms for row in metrics.partitions if row.leaderless_ms]
    assert led
    assert min(led) > active.ms - fault
    heartbeat_ms = TIMEOUT_MS / 3
    assert max(led) == pytest.approx(fenced.ms - fault, abs=heartbeat_ms)
