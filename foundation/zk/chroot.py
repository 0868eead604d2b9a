"""Creation of the chroot that `zookeeper.connect` names, on a session that is not confined to it yet."""

from __future__ import annotations

from understudy.foundation.zk.client import Create, Failure, Stat, ZooKeeperClient, ZooKeeperUnreachable


async def create_chroot_if_necessary(zk: ZooKeeperClient, chroot: str) -> None:
    """Create the folders of `chroot` (`/apps/kafka`) that are missing.

    Folders that exist are only looked at: this client may lack the CREATE permission on their parents (KAFKA-12866).
    A lost connection is waited out and the request repeated; the caller bounds the time. Mirrors the creation of the
    chroot in `kafka.zk.KafkaZkClient.apply`.

    Raises:
        ZooKeeperUnreachable: a missing folder cannot be created, or the session expired.
    """
    if not chroot or await _exists(zk, chroot):
        return
    names = chroot.split("/")[1:]
    for depth in range(1, len(names) + 1):
        path = "/" + "/".join(names[:depth])
        if not await _exists(zk, path):
            await _create(zk, path, chroot)


async def _exists(zk: ZooKeeperClient, path: str) -> bool:
    while (found := await zk.exists(path)) is Failure.UNKNOWN:
        await zk.connected()
    if found is Failure.SESSION_EXPIRED:
        raise session_expired(zk)
    # A ZooKeeper that requires READ of an exists request (ZOOKEEPER-2590) refuses it only if the znode exists.
    return isinstance(found, Stat) or found is Failure.NO_AUTH


async def _create(zk: ZooKeeperClient, path: str, chroot: str) -> None:
    while (answer := await zk.write(Create(path))) is Failure.UNKNOWN:
        await zk.connected()
    if answer is Failure.SESSION_EXPIRED:
        raise session_expired(zk)
    if not isinstance(answer, Failure) or answer is Failure.NODE_EXISTS:
        return
    if answer is Failure.NO_AUTH:
        # ZooKeeper checks the permission first, so this may hide that another client has just created the folder.
        if await _exists(zk, path):
            return
        parent = path.rpartition("/")[0] or "/"
        remedy = f"this client lacks the CREATE permission on {parent}; create {chroot} by hand or grant CREATE there"
    else:
        remedy = "name another chroot"
    raise ZooKeeperUnreachable(
        f"the chroot {chroot} of zookeeper.connect is missing and {path} cannot be created: {answer.value}; {remedy}"
    )


def session_expired(zk: ZooKeeperClient) -> ZooKeeperUnreachable:
    """Return the error of a session that ended before `ZooKeeper.connect` could return it."""
    return ZooKeeperUnreachable(f"session 0x{zk.session_id:x} expired while it was being opened")
