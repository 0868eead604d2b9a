"""Runs work in Apache Spark; the only package that imports pyspark.

`gateway` and `context` start Spark, `replay_job` computes the tables of `understudy.history.metrics.metric_tables`,
`source` lets Spark read event logs, `ingest_job` writes them into a lake, and `lake_tables` reads it. An analyst
imports these names from here; each is loaded at first use:

    from understudy.spark import read_lake, read_records, register, spark_session
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from understudy.extras import require

if TYPE_CHECKING:
    from understudy.spark.lake_tables import read_lake as read_lake
    from understudy.spark.lake_tables import read_records as read_records
    from understudy.spark.session import spark_session as spark_session
    from understudy.spark.source import register as register

_MODULES = {
    "read_lake": "understudy.spark.lake_tables",
    "read_records": "understudy.spark.lake_tables",
    "register": "understudy.spark.source",
    "spark_session": "understudy.spark.session",
}

require("spark")

__all__ = ["read_lake", "read_records", "register", "spark_session"]


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_MODULES[name]), name)
