"""`Lake`, which reads the records and tables of many runs. Needs pyarrow and deltalake, and says so if one is not
installed.

from understudy.lake import Lake
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from understudy.extras import require

if TYPE_CHECKING:
    from understudy.history.lake.lake import Lake as Lake

__all__ = ["Lake"]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    require("spark", "pyarrow", "deltalake")
    from understudy.history.lake.lake import Lake  # noqa: PLC0415  the extra `spark`

    return Lake
