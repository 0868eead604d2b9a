"""The import of the logs of KRaft clusters agrees with Kafka's own tools and with what its nodes log."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from devtools.judges.kraft import VERSIONS
from tests.interop.conftest import TIMEOUT_S, skip_or_fail
from tests.interop.kraft_runs import make_run, make_trimmed_log
from tests.shares import SHARES, only_nightly
from tests.understudy.history.kafka_logs.recorded import recorded
from tests.understudy.history.kraft_logs.comparisons import COMPARISONS, ImportedRun, import_run
from understudy.cli.check import check_run_folder
from understudy.clusters.processes.kafka_jars import NotFetched
from understudy.history.kraft_logs.importer import import_metadata
from understudy.history.metrics.metrics import measure

pytestmark = [
    pytest.mark.interop,
    pytest.mark.timeout(TIMEOUT_S),
    pytest.mark.xdist_group("import-kraft"),
    only_nightly("kraft-clusters"),
]

CLUSTERS = [(version, layout) for version in VERSIONS for layout in ("combined", "separate")]


@pytest.fixture(scope="module", params=CLUSTERS, ids="-".join)
def imported(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> ImportedRun:
    """A cluster whose active controller is killed and paused, and of which a leader is killed."""
    version, layout = request.param
    folder = tmp_path_factory.mktemp(f"kraft-{version}-{layout}")
    try:
        found = import_run(make_run(version, layout, folder), folder / "events")
    except NotFetched as why:
        skip_or_fail(why)
    for row in found.numbers.failovers:
        print(
            f"{version} {layout}: epoch {row.previous_epoch} of {row.previous_broker} to {row.epoch} of {row.broker}: "
            f"lost at {row.lost_at_ms} ms, takeover {row.takeover_ms} ms, outage {row.outage_ms} ms"
        )
    return found


@pytest.mark.parametrize("compare", COMPARISONS, ids=lambda compare: compare.__name__)
def test_an_import_agrees_with_kafka(imported: ImportedRun, compare: Callable[[ImportedRun], None]) -> None:
    compare(imported)


def test_the_whole_share_has_all_clusters() -> None:
    assert SHARES["kraft-clusters"].whole == len(CLUSTERS)


def test_a_log_whose_beginning_a_snapshot_has_replaced(tmp_path: Path) -> None:
    """Its last states are what `kafka-topics` shows, also of a topic from before the snapshot."""
    try:
        folder, described = make_trimmed_log(VERSIONS[0], tmp_path)
    except NotFetched as why:
        skip_or_fail(why)
    report = import_metadata([("", folder)], tmp_path / "events")
    assert report.nodes == ("broker-1", "broker-2")
    assert report.notes
    assert report.notes[0].startswith("the log begins at offset ")
    assert not report.missing
    rows = measure(report.run, recorded(tmp_path / "events").records).partitions
    shown = re.findall(r"Topic: (\S+)\s+Partition: (\d+)\s+Leader: (\w+)\s+.*?Isr: ([\d,]*)", described)
    assert len(shown) == 3
    assert {
        (topic, int(number), -1 if leader == "none" else int(leader), tuple(map(int, isr.split(","))))
        for topic, number, leader, isr in shown
    } == {(row.topic, row.partition, row.leader, row.isr) for row in rows}
    assert check_run_folder(tmp_path / "events").exit_code == 0
