"""The S3 server for the tests of this folder."""

from __future__ import annotations

from tests.understudy.history.storage.s3_server import bucket, s3_server

__all__ = ["bucket", "s3_server"]
