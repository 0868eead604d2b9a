"""`clocks_in_c`: the records of aiokafka are stamped by virtual time, however it was imported."""

from __future__ import annotations

import subprocess
import sys

import pytest

_PROGRAM = """
{first}
from understudy.clusters.virtual import machine
machine.install()
{then}
import time
from aiokafka.producer.message_accumulator import BatchBuilder
time.time = lambda: 12.5
builder = BatchBuilder(16384, 0)
print(builder.append(timestamp=None, key=None, value=b"a", headers=[]).timestamp)
print(builder.append(timestamp=7, key=None, value=b"b", headers=[]).timestamp)
"""
_IMPORT = "import aiokafka"


@pytest.mark.parametrize(("first", "then"), [(_IMPORT, ""), ("", _IMPORT)], ids=["imported before", "imported after"])
def test_records_of_aiokafka_are_stamped_by_the_replaced_clock(first: str, then: str) -> None:
    """A process of its own, because the replacements of `install` are for good."""
    program = _PROGRAM.format(first=first, then=then)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.stdout.split(), done.stderr) == (["12500", "7"], "")
