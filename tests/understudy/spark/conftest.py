"""The Spark that the tests of a module share, because each start takes seconds.

A process can have only one SparkContext. So each module whose tests start Spark in this process is an `xdist_group` of
its own: pytest-xdist runs its tests one after the other, and the module's Spark has ended before the next one's starts.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from understudy.clusters.java import choose_java
from understudy.spark.context import SparkSettings
from understudy.spark.replay_job import SparkReplay


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkReplay]:
    with SparkReplay(SparkSettings(java=choose_java(), memory="1g")) as replay:
        yield replay


@pytest.fixture(scope="module")
def session(spark: SparkReplay) -> SparkSession:
    """A session in the same Spark, for tests of code that runs if a session exists already."""
    return spark.session
