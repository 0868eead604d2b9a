"""The import of the logs of KRaft clusters agrees with Kafka's own tools and with what its nodes log."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from devtools.judges.kraft import VERSIONS
from devtools.judges.maven import NotFetched
from tests.interop.conftest import TIMEOUT_S, skip_or_fail
from tests.interop.kraft_runs import make_run
from tests.shares import share_of
from tests.understudy.history.kraft_logs.comparisons import COMPARISONS, ImportedRun, import_run

pytestmark = [pytest.mark.interop, pytest.mark.timeout(TIMEOUT_S), pytest.mark.xdist_group("import-kraft")]

CLUSTERS = [
    (VERSIONS[0], "combined"),
    (VERSIONS[1], "separate"),
    (VERSIONS[1], "combined"),
    (VERSIONS[0], "separate"),
][: share_of("kraft-clusters")]


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
