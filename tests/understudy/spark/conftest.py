"""The Spark that the tests of a module share, because each start takes seconds.

A process can have only one SparkContext. So each module whose tests start Spark in this process is an `xdist_group` of
its own: pytest-xdist runs its tests one after the other, and the module's Spark has ended before the next one's starts.
"""

from __future__ import annotations

from collections.abc import Iterator
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


@pytest.fixture(scope="module")
def session() -> Iterator[SparkSession]:
    with spark_running(SparkSettings(java=choose_java(), memory="1g")) as running:
        yield running
