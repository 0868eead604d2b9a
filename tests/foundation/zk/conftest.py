"""`KafkaZkClient` is tested on both subjects of the ZooKeeper contract: the simulated and the real one."""

from __future__ import annotations

from tests.contracts.conftest import server_of, subject

__all__ = ["server_of", "subject"]
