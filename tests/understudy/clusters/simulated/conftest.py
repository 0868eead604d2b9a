"""The event loop of the tests in this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from understudy.clusters.simulated.loop import SimulatedLoop, new_loop


@pytest.fixture
def loop() -> Iterator[SimulatedLoop]:
    """A loop in which no callback may fail."""
    loop = new_loop()
    yield loop
    loop.close()
    assert loop.failures == []
