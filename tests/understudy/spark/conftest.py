"""The Spark session that all tests of the replay share, because each start takes seconds."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from understudy.java import choose_java
from understudy.spark.context import SparkSettings
from understudy.spark.replay_job import SparkReplay


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkReplay]:
    with SparkReplay(SparkSettings(java=choose_java(), memory="1g")) as replay:
        yield replay


@pytest.fixture(scope="session")
def session(spark: SparkReplay) -> SparkSession:
    """A session in the same Spark, for tests of what runs where a session exists already."""
    return spark.session
