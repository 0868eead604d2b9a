"""Fixtures of the compose tests: one image per session, and one cluster per module."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from tests.compose.compose_cluster import ComposeCluster, ComposeFailed
from tests.docker_engine import skip_or_fail, why_no_base_image


@pytest.fixture(scope="session")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Build the image from this checkout under a tag of its own; it is removed at the end."""
    reason = why_no_base_image()
    if reason is not None:
        skip_or_fail(reason)
    name = f"understudy-test-{uuid.uuid4().hex[:12]}"
    builder = ComposeCluster(tmp_path_factory.mktemp("image"), project=name, image=name)
    try:
        _build(builder)
        yield name
    finally:
        builder.remove_image()


def _build(builder: ComposeCluster) -> None:
    try:
        builder.build()
    except ComposeFailed as failed:
        pytest.fail(f"the image cannot be built: {failed}", pytrace=False)


@pytest.fixture(scope="module")
def cluster(image: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ComposeCluster]:
    """Start a cluster under a project name of its own, and wait until it is healthy; it is removed at the end."""
    project = f"{image}-{uuid.uuid4().hex[:6]}"
    cluster = ComposeCluster(tmp_path_factory.mktemp("compose"), project=project, image=image)
    try:
        cluster.up_on_free_ports()
        yield cluster
    finally:
        cluster.remove()
