"""The subjects of the ZooKeeper contract: simulated, our ZooKeeper 3.9, and in `make interop` older versions."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import pytest

from devtools.judges.maven import ZOOKEEPERS
from tests import zookeeper_versions
from tests.contracts.real_subject import RealSubject
from tests.contracts.simulated_subject import SimulatedSubject
from tests.contracts.subject import Subject
from understudy.clusters.processes.embedded_zookeeper import EmbeddedZooKeeper

REPRESENTATIVE = pytest.mark.representative("the contract on the real ZooKeeper")

ServerOf = Callable[[str], EmbeddedZooKeeper]


@pytest.fixture(scope="session")
def server_of(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerOf]:
    """Return the running server of a version of ZooKeeper; it is started at its first use."""
    servers: dict[str, EmbeddedZooKeeper] = {}
    with contextlib.ExitStack() as stack:

        def server(version: str) -> EmbeddedZooKeeper:
            if version not in servers:
                folder = tmp_path_factory.mktemp(f"zookeeper-{version}")
                servers[version] = stack.enter_context(zookeeper_versions.running(version, folder))
            return servers[version]

        yield server


def of_version(version: str) -> object:
    return pytest.param(version, marks=[pytest.mark.interop, pytest.mark.xdist_group(f"zookeeper {version}")])


@pytest.fixture(params=["simulated", pytest.param("real", marks=REPRESENTATIVE), *map(of_version, ZOOKEEPERS)])
def subject(request: pytest.FixtureRequest) -> Subject:
    if request.param == "simulated":
        return SimulatedSubject()
    if request.param == "real":
        return RealSubject(request.getfixturevalue("zookeeper").connect_string)
    server_of: ServerOf = request.getfixturevalue("server_of")
    return RealSubject(server_of(request.param).connect_string)
