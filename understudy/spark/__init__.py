"""Runs work in Apache Spark; the only package that imports pyspark.

An analyst imports these names from here; each is loaded at first use:

    from understudy.spark import replay, ingest, compare, seeds          functions that take a session
    from understudy.spark import read_lake, read_records, register      a lake, and the data source of event logs
    from understudy.spark import tables                                 the tables of a replay as SQL over a lake
    from understudy.spark import send_package, spark_session             executors, and a session that is ready

`running` runs a session for a command: `classic` starts Java by `gateway`, and `connect` uses a Spark Connect server.
`distribution` sends tasks to `kernels`, which run in workers. `replay_job`, `measured_tables`, `ingest_job`,
`compare_job` and `seeds_job` are built on it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from understudy.extras import require

if TYPE_CHECKING:
    from understudy.spark.functions import compare as compare
    from understudy.spark.functions import ingest as ingest
    from understudy.spark.functions import replay as replay
    from understudy.spark.functions import seeds as seeds
    from understudy.spark.functions import send_package as send_package
    from understudy.spark.lake_tables import read_lake as read_lake
    from understudy.spark.lake_tables import read_records as read_records
    from understudy.spark.session import spark_session as spark_session
    from understudy.spark.source import register as register
    from understudy.spark.views.lake_views import tables as tables

_MODULES = {
    **dict.fromkeys(("compare", "ingest", "replay", "seeds", "send_package"), "understudy.spark.functions"),
    "read_lake": "understudy.spark.lake_tables",
    "read_records": "understudy.spark.lake_tables",
    "register": "understudy.spark.source",
    "spark_session": "understudy.spark.session",
    "tables": "understudy.spark.views.lake_views",
}

# Workers import this package as well. They need no pandas, which `check_spark_version` asks for.
require("spark", "pyspark", "pyarrow", "numpy")

__all__ = [
    "compare",
    "ingest",
    "read_lake",
    "read_records",
    "register",
    "replay",
    "seeds",
    "send_package",
    "spark_session",
    "tables",
]


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_MODULES[name]), name)
