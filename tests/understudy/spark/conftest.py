"""The Spark that the tests of a module share, because each start takes seconds.

A process can have only one SparkContext. So each module whose tests start Spark in this process is an `xdist_group` of
its own: pytest-xdist runs its tests one after the other, and the module's Spark has ended before the next one's starts.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from understudy.clusters.java import choose_java
from understudy.spark.running import spark_running
from understudy.spark.settings import SparkSettings


@pytest.fixture(scope="module")
def session() -> Iterator[SparkSession]:
    with spark_running(SparkSettings(java=choose_java(), memory="1g")) as running:
        yield running
