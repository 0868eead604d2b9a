"""The lake: the records and tables of many runs as Parquet files, with a manifest that says which of them count.

`ingest` brings event logs in and removes runs, `lake` reads, `writer` and `manifest` make each change whole. `columns`,
`lines` and `log_rows` turn lines of event logs into Arrow columns, for the lake and for Spark's data source. Needs
pyarrow. Other projects import `Lake` from here; it is loaded at first use:

    from understudy.lake import Lake
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from understudy.extras import require

if TYPE_CHECKING:
    from understudy.lake.lake import Lake as Lake

__all__ = ["Lake"]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    require("spark", "pyarrow")
    return getattr(importlib.import_module("understudy.lake.lake"), name)
