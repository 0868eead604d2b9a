"""The Spark that tests share, because its start and the first use of each of its classes take seconds.

A process can have only one SparkContext. So the tests that take the fixture `session` are one `xdist_group`, which
pytest-xdist runs one after the other in one process. Their Spark ends before a test of another group starts its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.understudy.spark.older_spark import passes_over_warnings
from understudy.clusters.java import choose_java
from understudy.spark.running import spark_running
from understudy.spark.settings import SparkSettings
from understudy.spark.versions import HAS_READ_LIMITS


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if not HAS_READ_LIMITS:
        for item in items:
            if item.path.is_relative_to(Path(__file__).parent):
                item.add_marker(passes_over_warnings)


class SharedSpark:
    """A Spark that starts when a test first needs it."""

    def __init__(self) -> None:
        self._running = ExitStack()
        self._session: SparkSession | None = None

    def session(self) -> SparkSession:
        if self._session is None:
            settings = SparkSettings(java=choose_java(), memory="1g")
            self._session = self._running.enter_context(spark_running(settings))
        return self._session

    def end(self) -> None:
        self._session = None
        self._running.close()


_SHARED = SharedSpark()


@pytest.fixture(scope="module")
def session(request: pytest.FixtureRequest) -> SparkSession:
    """The Spark of the `xdist_group` "spark", in which each module that takes this has to be."""
    assert _is_in_shared_group(request.node)
    return _SHARED.session()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    try:
        yield
    finally:
        if nextitem is None or not _is_in_shared_group(nextitem):
            _SHARED.end()


def _is_in_shared_group(node: pytest.Item | pytest.Module) -> bool:
    group = node.get_closest_marker("xdist_group")
    return group is not None and group.args == ("spark",)
