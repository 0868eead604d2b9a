"""What all tests share: one real ZooKeeper per test process, started by the first that asks for it; who may use Docker.

No test leaves its operators' log to the next.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator

import pytest
import structlog
from hypothesis import HealthCheck, settings

from tests.docker_engine import why_no_engine
from understudy.testbed.embedded_zookeeper import EmbeddedZooKeeper

# How long an example takes is the machine's business, and which ones are looked at is nobody's luck.
settings.register_profile(
    "understudy", deadline=None, derandomize=True, database=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("understudy")


@pytest.fixture(autouse=True)
def operators_log_as_it_was() -> Iterator[None]:
    """Whether anybody configured it counts too: the simulator leaves alone what is configured."""
    configured, before, handlers = structlog.is_configured(), structlog.get_config(), logging.getLogger().handlers
    yield
    logging.getLogger().handlers = handlers
    if configured:
        structlog.configure(**before)
    else:
        structlog.reset_defaults()


@pytest.fixture(scope="session")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedZooKeeper]:
    """A running server. It is shared: take a chroot of your own, and leave the server as you found it."""
    with EmbeddedZooKeeper(tmp_path_factory.mktemp("zookeeper")) as server:
        yield server


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip `docker` tests where no engine answers, and say why; `REQUIRE_DOCKER=1` turns that into an error."""
    marked = [item for item in items if item.get_closest_marker("docker") is not None]
    if not marked:
        return
    reason = why_no_engine()
    if reason is None:
        return
    if os.environ.get("REQUIRE_DOCKER") == "1":
        raise pytest.UsageError(f"REQUIRE_DOCKER=1, but {reason}")
    for item in marked:
        item.add_marker(pytest.mark.skip(reason=f"docker tests: {reason}"))
