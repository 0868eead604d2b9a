"""The lake: the records and tables of many runs as Parquet files, with a manifest that says which of them count.

`ingest` brings event logs in and removes runs, `lake` reads, `writer` and `manifest` make each change whole. `columns`,
`lines` and `log_rows` turn lines of event logs into Arrow columns, for the lake and for Spark's data source. Needs
pyarrow. Other projects import `Lake` from here; it is loaded at first use:

    from understudy.lake import Lake
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from understudy.lake.lake import Lake as Lake

__all__ = ["Lake"]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(importlib.import_module("understudy.lake.lake"), name)
    except ModuleNotFoundError as error:
        if error.name != "pyarrow":
            raise
        needed = f"understudy.lake.{name} needs pyarrow: pip install pyarrow"
        raise ModuleNotFoundError(needed, name="pyarrow") from None
