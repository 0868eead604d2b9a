"""Everything that runs in Apache Spark; the only package that imports pyspark.

`gateway` starts a Java for Spark, and `replay_job` computes the tables of `foundation.eventlog.metric_tables`. `source`
lets Spark read event logs. An analyst imports these names from here; each is loaded at first use:

    from understudy.spark import register
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from understudy.spark.source import register as register

_MODULES = {"register": "understudy.spark.source"}

__all__ = ["register"]


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(importlib.import_module(_MODULES[name]), name)
    except ModuleNotFoundError as error:
        if error.name != "pyarrow":
            raise
        raise ModuleNotFoundError(
            "understudy.spark needs pyarrow: pip install 'understudy[analysis]'", name="pyarrow"
        ) from None
