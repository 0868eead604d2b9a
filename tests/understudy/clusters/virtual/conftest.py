"""Subjects for the tests of the loop of a simulated process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.understudy.clusters.virtual.subjects import AsyncioSubject, SimulatedSubject, Subject


@pytest.fixture(params=["asyncio", "simulated"])
def subject(request: pytest.FixtureRequest) -> Iterator[Subject]:
    """Each loop that must do the same."""
    if request.param == "asyncio":
        yield AsyncioSubject()
        return
    simulated = SimulatedSubject()
    yield simulated
    simulated.kernel.close()


@pytest.fixture
def simulated() -> Iterator[SimulatedSubject]:
    """Processes in virtual time alone."""
    subject = SimulatedSubject()
    yield subject
    subject.kernel.close()
