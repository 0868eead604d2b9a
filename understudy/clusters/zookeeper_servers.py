"""The servers of a cluster's ZooKeeper as words: in the targets of faults, and in their records."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Final

from understudy.clusters.cluster import ClusterError

ZOOKEEPER: Final = "zookeeper"
LEADER: Final = "leader"
MOST_SERVERS: Final = 7
"""The largest ensemble that a cluster starts; on processes each server is a Java process."""


def check_count(count: int) -> None:
    """Raise ClusterError if a cluster cannot have this number of servers."""
    if not 1 <= count <= MOST_SERVERS:
        raise ClusterError(f"zookeepers={count}: give 1 for a standalone server, or up to {MOST_SERVERS}, best 3")


def name_of(number: int, servers: Collection[int]) -> str:
    """The name of a server in the records of faults: `zookeeper`, or `zookeeper-2` in an ensemble."""
    return ZOOKEEPER if len(servers) == 1 else f"{ZOOKEEPER}-{number}"


def names_of(numbers: Sequence[int], servers: Collection[int]) -> str:
    """The name of some servers in the records of faults: `zookeeper` for all of them; all if there are none."""
    named = numbers or tuple(servers)
    return ZOOKEEPER if len(named) == len(servers) else ", ".join(name_of(number, servers) for number in named)


def servers_in(connect_string: str, servers: Collection[int]) -> tuple[int, ...]:
    """The ids of the servers that a connect string names; none if it names no member of the ensemble."""
    addresses = connect_string.partition("/")[0].split(",")
    hosts = {address.strip().rpartition(":")[0] for address in addresses}
    return tuple(number for number in servers if name_of(number, servers) in hosts)


def find_servers(which: str, servers: Collection[int], leader: Callable[[], int | None]) -> tuple[int, ...]:
    """Return the ids of the servers that a word names: empty for all, `leader`, or an id.

    Raises:
        ClusterError: there is no such server, or no leader at this moment.
    """
    if not which:
        return tuple(servers)
    if which == LEADER:
        leading = leader()
        if leading is None:
            raise ClusterError("no ZooKeeper server is leader at this moment: the ensemble has no quorum")
        return (leading,)
    if not which.isdecimal() or int(which) not in servers:
        raise ClusterError(f"there is no ZooKeeper server {which}; the servers are {', '.join(map(str, servers))}")
    return (int(which),)
