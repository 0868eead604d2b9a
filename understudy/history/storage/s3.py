"""Reaches buckets of Amazon S3, and of servers with its interface."""

from __future__ import annotations

import os
from typing import Final

import pyarrow.fs as pafs

_SDK_ATTEMPTS: Final = 8
_TIMEOUT_S: Final = 60.0
_CONNECT_S: Final = 10.0


def open_bucket(bucket: str) -> tuple[pafs.FileSystem, str]:
    """Return the file system of a bucket, and the path of its root in it."""
    endpoint = _endpoint()
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    if region is None and endpoint is None:
        region = pafs.resolve_s3_region(bucket)
    files = pafs.S3FileSystem(
        region=region or "us-east-1",
        endpoint_override=endpoint,
        allow_delayed_open=True,  # a small file takes one request instead of three
        # The standard strategy gives up retrying at all once a busy store has refused a hundred requests.
        retry_strategy=pafs.AwsDefaultS3RetryStrategy(max_attempts=_SDK_ATTEMPTS),
        request_timeout=_TIMEOUT_S,
        connect_timeout=_CONNECT_S,
    )
    return files, bucket


def table_options() -> dict[str, str] | None:
    """Return what deltalake needs for a server without TLS besides the variables that it reads."""
    endpoint = _endpoint() or ""
    return {"AWS_ENDPOINT_URL": endpoint, "AWS_ALLOW_HTTP": "true"} if endpoint.startswith("http:") else None


def _endpoint() -> str | None:
    """Return the URL of the server if it is not Amazon's; deltalake and pyarrow do not find it in the same ways."""
    return os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
