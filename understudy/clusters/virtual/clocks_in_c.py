"""Gives clients a virtual clock whose extensions in C ask the operating system for the time.

aiokafka's extension stamps each record by `gettimeofday` (`aiokafka/record/_crecords/cutil.pyx`), in every version
from 0.10 to 0.14. The bytes of its batches would differ in each run of a seed.
"""

from __future__ import annotations

import functools
import importlib.util
import sys
import time
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, Final

_STAMPING: Final = "aiokafka.producer.message_accumulator"


def install() -> None:
    """Replace the clocks of loaded clients, and of those that are loaded later. Called once in a process."""
    if (module := sys.modules.get(_STAMPING)) is not None:
        _stamp_records(module)
    else:
        sys.meta_path.insert(0, _Finder())


def _stamp_records(module: ModuleType) -> None:
    append = module.BatchBuilder.append

    @functools.wraps(append)
    def stamped(self: Any, *, timestamp: int | None, **record: Any) -> Any:
        return append(self, timestamp=int(time.time() * 1000) if timestamp is None else timestamp, **record)

    module.BatchBuilder.append = stamped


class _Finder:
    """Replaces the clock as soon as the module is loaded."""

    def find_spec(self, name: str, *_: Any) -> ModuleSpec | None:
        if name != _STAMPING:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def load(module: ModuleType) -> None:
            execute(module)
            _stamp_records(module)

        spec.loader.exec_module = load  # type: ignore[method-assign]  # of this module's loader alone
        return spec
