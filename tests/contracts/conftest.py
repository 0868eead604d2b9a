"""The subjects of the ZooKeeper contract."""

from __future__ import annotations

import pytest

from tests.contracts.real_subject import RealSubject
from tests.contracts.simulated_subject import SimulatedSubject
from tests.contracts.subject import Subject

REPRESENTATIVE = pytest.mark.representative("the contract on the real ZooKeeper")


@pytest.fixture(params=["simulated", pytest.param("real", marks=REPRESENTATIVE)])
def subject(request: pytest.FixtureRequest) -> Subject:
    if request.param == "simulated":
        return SimulatedSubject()
    return RealSubject(request.getfixturevalue("zookeeper").connect_string)
