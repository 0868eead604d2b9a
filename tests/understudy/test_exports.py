"""What `import understudy` offers, and what it does not drag in."""

from __future__ import annotations

import subprocess
import sys

import pytest

import understudy


@pytest.mark.parametrize("name", understudy.__all__)
def test_what_is_promised_is_there(name: str) -> None:
    assert getattr(understudy, name).__name__ == name


def test_nothing_is_loaded_before_it_is_asked_for() -> None:
    look = (
        "import sys, understudy; print([name for name in sys.modules if name.startswith(('understudy.', 'brokers'))])"
    )
    assert subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = understudy.Nothing
