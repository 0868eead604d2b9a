"""The import of the logs of two KRaft clusters of Apache Kafka agrees with what Kafka's own tools say about them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.understudy.history.kraft_logs.comparisons import COMPARISONS, ImportedRun, import_run
from tests.understudy.history.kraft_logs.kraft_run import SAMPLES, unpacked

NAMES = sorted(path.name for path in SAMPLES.iterdir())


@pytest.fixture(scope="module", params=NAMES)
def imported(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> ImportedRun:
    folder = tmp_path_factory.mktemp(request.param)
    return import_run(unpacked(request.param, folder / "run"), folder / "events")


@pytest.mark.parametrize("compare", COMPARISONS, ids=lambda compare: compare.__name__)
def test_an_import_agrees_with_kafka(imported: ImportedRun, compare: Callable[[ImportedRun], None]) -> None:
    compare(imported)


def test_both_layouts_are_recorded() -> None:
    assert [name.partition("-")[2] for name in NAMES] == ["combined", "separate"]
