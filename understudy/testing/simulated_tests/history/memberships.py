"""Finds the group for which a client fetches a partition: a Fetch request does not name it."""

from __future__ import annotations

from typing import NamedTuple

from understudy.testing.simulated_tests.history.wire_records import Assigned, Client, Partition


class Reader(NamedTuple):
    """For whom a partition is fetched: the group or None, the member id or an empty text, the generation or -1."""

    group: str | None = None
    member: str = ""
    generation: int = -1


class Memberships:
    """The assignments of all members, and which groups the offsets belong to that clients without a member look up.

    If consumers of several groups in one process have the same client id and are assigned the same partition, each of
    their connections to a broker counts for another group, in the order in which they are first used.
    """

    def __init__(self) -> None:
        self._assigned: dict[Client, dict[str, dict[str, Assigned]]] = {}
        """By client, group and member."""
        self._looked_up: dict[tuple[Client, Partition], str] = {}
        self._claims: dict[tuple[Client, str], dict[int, str]] = {}
        """The groups of open connections, by client and broker."""

    def assigned(self, assignment: Assigned) -> None:
        members = self._assigned.setdefault(assignment.client, {}).setdefault(assignment.group, {})
        members.pop(assignment.member, None)
        members[assignment.member] = assignment

    def left(self, client: Client, group: str, member: str) -> None:
        self._assigned.get(client, {}).get(group, {}).pop(member, None)

    def looked_up(self, client: Client, group: str, partition: Partition) -> None:
        """Note that a client has asked for, or has committed, the offset of a partition."""
        self._looked_up[client, partition] = group

    def closed(self, client: Client, broker: str, connection: int) -> None:
        self._claims.get((client, broker), {}).pop(connection, None)

    def reader(self, client: Client, broker: str, connection: int, partition: Partition) -> Reader:
        """Return for whom a client now fetches a partition over a connection."""
        candidates: dict[str, Reader] = {}
        for group, members in self._assigned.get(client, {}).items():
            for each in members.values():
                if partition in each.partitions:
                    # The last one: a consumer that had to join anew has another member id.
                    candidates[group] = Reader(group, each.member, each.generation)
        if not candidates:
            return Reader(self._looked_up.get((client, partition)))
        claims = self._claims.setdefault((client, broker), {})
        group = claims.get(connection, "")
        if group not in candidates:
            free = [each for each in candidates if each not in claims.values()]
            group = (free or list(candidates))[0]
            claims[connection] = group
        return candidates[group]
