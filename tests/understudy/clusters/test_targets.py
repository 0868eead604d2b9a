"""Which brokers the role of a target means."""

from __future__ import annotations

import pytest

from understudy.clusters.cluster import ClusterError
from understudy.clusters.targets import Resolver
from understudy.clusters.values import parse_target

RACKS = {1: "a", 2: "b", 3: "a"}


def resolver(*, controller: int | None = 2, leader: int | None = 3) -> Resolver:
    return Resolver(RACKS, RACKS.get, lambda: [1, 3], lambda: controller, lambda _: leader, lambda _: (3, 1, 2))


@pytest.mark.parametrize(
    ("target", "brokers", "role"),
    [
        ("2", (2,), ""),
        ("all", (1, 2, 3), ""),
        ("random", (3,), ""),
        ("rack(a)", (1, 3), "rack a"),
        ("controller", (2,), "controller"),
        ("leader(orders/0)", (3,), "leader of orders-0"),
        ("follower(orders/0)", (2,), "follower of orders-0"),
    ],
)
def test_a_role_means_the_brokers_that_have_it_now(target: str, brokers: tuple[int, ...], role: str) -> None:
    assert resolver().resolve(parse_target(target), choose=max) == (brokers, role)


@pytest.mark.parametrize(
    ("target", "why"),
    [
        ("controller", "no broker is controller at this moment"),
        ("leader(orders/0)", "no broker is leader of orders-0 at this moment"),
        ("rack(z)", "no broker is in rack 'z'; the racks are: a, b"),
    ],
)
def test_a_role_that_no_broker_has_is_refused(target: str, why: str) -> None:
    with pytest.raises(ClusterError, match=why):
        resolver(controller=None, leader=None).resolve(parse_target(target), choose=max)


def test_the_candidates_of_a_role_that_is_drawn_are_all_that_it_may_mean() -> None:
    assert resolver().candidates(parse_target("follower(orders/0)")) == (1, 2)
    assert resolver().candidates(parse_target("random")) == (1, 3)
