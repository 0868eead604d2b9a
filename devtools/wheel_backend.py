"""The build backend of the distribution: setuptools', which also puts ZooKeeper's jars into the wheel.

The jars come from PySpark's distribution, which a build of the wheel therefore needs, or from the folder that
UNDERSTUDY_ZOOKEEPER_JARS names. They are written into the build folder, never into the sources. An editable
installation and the source distribution have none.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
from pathlib import Path
from types import ModuleType
from typing import Any

from setuptools import build_meta
from setuptools.build_meta import (  # noqa: F401 - the hooks that stay as they are
    build_editable,
    build_sdist,
    build_wheel,
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)
from setuptools.command.build_py import build_py

ROOT = Path(__file__).resolve().parents[1]
MODULE = Path("understudy/clusters/processes/zookeeper_jars.py")


def get_requires_for_build_wheel(config_settings: Any = None) -> list[str]:
    """Return what a build of the wheel needs: PySpark, unless the jars are somewhere else."""
    needed = build_meta.get_requires_for_build_wheel(config_settings)
    if os.environ.get(_jars().VARIABLE):
        return needed
    pins = (ROOT / "constraints.txt").read_text().splitlines()
    return [*needed, next(pin for pin in pins if pin.startswith("pyspark=="))]


class BuildPy(build_py):
    """Builds the packages, and copies the jars beside their licences."""

    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            for source, built in self._copies():
                shutil.copyfile(source, built)

    def get_outputs(self, include_bytecode: bool = True) -> list[str]:
        outputs: list[str] = super().get_outputs(include_bytecode)
        return outputs if self.editable_mode else [*outputs, *(str(built) for _, built in self._copies())]

    def _copies(self) -> list[tuple[Path, Path]]:
        folder = Path(self.build_lib) / MODULE.parent / "jars"
        return [(jar, folder / jar.name) for jar in _jars().zookeeper_jars()]


def _jars() -> ModuleType:
    """Load the module that finds the jars, without its package, whose dependencies a build does not have."""
    spec = importlib.util.spec_from_file_location("zookeeper_jars", ROOT / MODULE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
