"""The packages that a plain installation leaves out, and the sentence that says how to install them.

The packages of an extra are imported by one part of `understudy` each: that part calls `require` when it is imported,
and the command line prints the sentence of the error.
"""

from __future__ import annotations

import importlib.util
from typing import Final

DISTRIBUTION: Final = "kafka-understudy"

_MODULES_BY_EXTRA: Final = {
    "spark": {
        "pyspark": "Apache Spark",
        "pyarrow": "Apache Arrow",
        "deltalake": "deltalake",
        "numpy": "NumPy",
        "pandas": "pandas",
    },
    "hdfs": {"hdfs_native": "hdfs-native"},
    "notebook": {"pandas": "pandas"},
}
"""Modules of each extra, with their names for messages."""


class MissingExtra(ModuleNotFoundError):
    """A package of an extra is not installed. The message names the package and the command that installs it."""


def is_installed(module: str) -> bool:
    """Whether a module could be imported; it is not imported."""
    return importlib.util.find_spec(module) is not None


def require(extra: str, *modules: str) -> None:
    """Check that modules of an extra are installed, all of them if none is named.

    Raises:
        MissingExtra: a module is not installed.
    """
    names = _MODULES_BY_EXTRA[extra]
    for module in modules or names:
        if not is_installed(module):
            command = f"pip install '{DISTRIBUTION}[{extra}]'"
            raise MissingExtra(f"{names[module]} is needed, which is not installed: {command}", name=module)
