"""Fixtures of all tests: one ZooKeeper per test process, started at first use, and a clean configuration of logging.

Skips tests marked `docker` if no Docker engine answers.
"""

from __future__ import annotations

import gc
import logging
import os
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
import structlog
from hypothesis import HealthCheck, settings

from tests.docker_engine import why_no_engine
from tests.tiers import TIME, Tiers
from tests.timing import Timing
from understudy.clusters.processes.embedded_zookeeper import EmbeddedZooKeeper

# Examples have no deadline, because machines differ in speed, and are the same in every run.
settings.register_profile(
    "understudy", deadline=None, derandomize=True, database=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("quick", settings.get_profile("understudy"), max_examples=20)  # of `make fast`
settings.load_profile("understudy")

LONGEST_ID = 200
"""How many characters of a text are shown in the name of a test."""

# The test of the cache makes one of its own.
os.environ["UNDERSTUDY_CLASS_CACHE"] = "off"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--times-to", metavar="FILE", help="write how long each test took; python -m devtools.durations FILE"
    )


def pytest_configure(config: pytest.Config) -> None:
    path = config.getoption("times_to")
    config.pluginmanager.register(Tiers(config))
    if path is not None:
        config.pluginmanager.register(Timing(None if hasattr(config, "workerinput") else Path(path)))


@pytest.fixture(autouse=True)
def restore_logging() -> Iterator[None]:
    """Restore structlog's configuration after each test; if there was none, the simulator configures its own."""
    configured, before, handlers = structlog.is_configured(), structlog.get_config(), logging.getLogger().handlers
    yield
    logging.getLogger().handlers = handlers
    if configured:
        structlog.configure(**before)
    else:
        structlog.reset_defaults()


@pytest.fixture(scope="session")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedZooKeeper]:
    """A running server, shared by all tests of a process: a test uses a chroot of its own and stops nothing."""
    with EmbeddedZooKeeper(tmp_path_factory.mktemp("zookeeper")) as server:
        yield server


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Name long texts by their length: a name of a megabyte goes to every worker and back with every report."""
    if isinstance(val, str | bytes) and len(val) > LONGEST_ID:
        return f"{argname} of {len(val)} {'characters' if isinstance(val, str) else 'bytes'}"
    return None


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect no garbage while tests are collected, and never examine the objects that exist then: none is freed."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if hasattr(config, "workerinput"):
        # With several workers the longest tests begin first: if one began last, a core would be without work.
        items.sort(key=lambda item: -item.stash[TIME].total_s if TIME in item.stash else 0.0)
    _skip_docker_tests_without_an_engine(items)


def _skip_docker_tests_without_an_engine(items: list[pytest.Item]) -> None:
    """Skip `docker` tests with a reason if no engine answers; `REQUIRE_DOCKER=1` turns that into an error."""
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
