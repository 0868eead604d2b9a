"""The store is tested over the subjects of the ZooKeeper contract: always the simulated one, and the real one."""

from __future__ import annotations

from tests.contracts.conftest import subject

__all__ = ["subject"]
