"""A worker for tests that unittest runs, and for those that are called as functions."""

from __future__ import annotations

import importlib
import importlib.util
import pickle
import sys
import traceback
import unittest
from dataclasses import dataclass
from multiprocessing import spawn
from types import ModuleType
from typing import Any, Final

from understudy.testing.simulated_tests.workers.serving import Line

_MAIN: Final = "__main__"


@dataclass(frozen=True, slots=True)
class Target:
    """The place of a test.

    Attributes:
        module: the name of its module.
        file: the module's file; empty if it has none.
        qualname: the name of the function in the module.
        unittest: the name of the method, if the function is the one of a `unittest.TestCase`, whose qualified name is
            `qualname` then; empty otherwise.
        call: the arguments, pickled.
        command: how a person calls the test again.
    """

    module: str
    file: str
    qualname: str
    unittest: str = ""
    call: bytes = b""
    command: str = ""


def serve_plain(line: Line, preparation: dict[str, Any]) -> None:
    """Serve tests.

    Args:
        preparation: how the main module is imported, as `multiprocessing.spawn` prepares a process.
    """
    has_main = False
    while (begun := line.next()) is not None:
        target = begun.target
        try:
            if not has_main:
                spawn.prepare(preparation)
                has_main = True
            found = _resolve(_module(target), target.qualname)
            if target.unittest:
                _run_unittest(line, found, target.unittest)
            else:
                args, named = pickle.loads(target.call)
                found(*args, **named)
        except Exception:  # noqa: BLE001  the starter raises it
            line.refuse(traceback.format_exc())
        else:
            if not line.is_answered:
                line.refuse(f"{target.qualname} of {target.module} has not called the simulated test")


def _run_unittest(line: Line, case: type[unittest.TestCase], method: str) -> None:
    result = unittest.TestResult()
    unittest.TestSuite([case(method)]).run(result)
    if line.is_answered:
        return
    if result.skipped:
        line.refuse(result.skipped[0][1], is_skipped=True)
    elif result.errors or result.failures:
        line.refuse((result.errors + result.failures)[0][1])


def _module(target: Target) -> ModuleType:
    if target.module == _MAIN:
        return sys.modules[_MAIN]
    try:
        return importlib.import_module(target.module)
    except ModuleNotFoundError:
        spec = importlib.util.spec_from_file_location(target.module, target.file) if target.file else None
        if spec is None or spec.loader is None:
            raise
        module = sys.modules[target.module] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module


def _resolve(module: ModuleType, qualname: str) -> Any:
    found: Any = module
    for name in qualname.split("."):
        found = getattr(found, name)
    return found
