"""`no_larger_file`: makes writes fail as on a full disk, without one."""

from __future__ import annotations

import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_larger_file(size: int) -> Iterator[None]:
    """Refuse every write of this process that makes a file larger than `size` bytes, while the block runs.

    Python writes no compiled modules meanwhile: it would keep the first bytes of one, which nothing could import.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        sys.dont_write_bytecode = before
