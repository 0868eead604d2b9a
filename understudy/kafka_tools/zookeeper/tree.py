"""Lists and deletes znodes with everything below them. Mirrors `org.apache.zookeeper.ZKUtil`."""

from __future__ import annotations

from collections import deque

from understudy.foundation.zk.client import Delete, Failure, MultiOk, ZooKeeperClient

BATCH = 1_000
"""Number of znodes that one transaction deletes."""


async def names_below(client: ZooKeeperClient, path: str) -> tuple[str, ...] | Failure:
    """Return the names of a znode's children, sorted."""
    listed = await client.children(path)
    return listed if isinstance(listed, Failure) else listed.names


async def tree_below(client: ZooKeeperClient, path: str) -> list[str] | Failure:
    """Return the paths of a znode and of all below it, parents first; the failure of the first that cannot be read."""
    found, left = [path], deque([path])
    while left:
        folder = left.popleft()
        names = await names_below(client, folder)
        if isinstance(names, Failure):
            return names
        below = [f"{folder.rstrip('/')}/{name}" for name in names]
        found += below
        left += below
    return found


async def delete_tree(client: ZooKeeperClient, path: str, batch: int = BATCH) -> bool | Failure:
    """Delete a znode and all below it, children first; return whether all are deleted, or why they cannot be listed.

    Args:
        batch: number of znodes that are deleted in one transaction.
    """
    found = await tree_below(client, path)
    if isinstance(found, Failure):
        return found
    found.reverse()
    for start in range(0, len(found), batch):
        done = await client.multi([Delete(each) for each in found[start : start + batch]])
        if not isinstance(done, MultiOk):
            return False
    return True
