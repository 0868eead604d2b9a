"""The servers for the tests of this folder."""

from __future__ import annotations

from tests.understudy.history.storage.buckets import bucket, servers

__all__ = ["bucket", "servers"]
