"""The Spark session that all tests of the replay share, because each start takes seconds."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from understudy.java import choose_java
from understudy.spark.replay_job import SparkReplay, SparkSettings


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkReplay]:
    with SparkReplay(SparkSettings(java=choose_java())) as replay:
        yield replay
