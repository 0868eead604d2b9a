"""The names that `understudy` exports, and that importing it loads no other module."""

from __future__ import annotations

import subprocess
import sys

import pytest

import understudy


@pytest.mark.parametrize("name", understudy.__all__)
def test_every_exported_name_exists(name: str) -> None:
    assert getattr(understudy, name).__name__ == name


def test_no_module_is_loaded_before_its_name_is_used() -> None:
    program = (
        "import sys, understudy; print([name for name in sys.modules if name.startswith(('understudy.', 'brokers'))])"
    )
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = understudy.Nothing
