"""The commands of ZooKeeper's shell that read and write znodes. Mirrors `org.apache.zookeeper.cli`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Final, TypeVar

from understudy.foundation.zk.client import (
    MATCH_ANY_VERSION,
    Create,
    Created,
    Delete,
    Failure,
    SetData,
    Stat,
    Updated,
    ZooKeeperClient,
)
from understudy.kafka_tools.console import Console
from understudy.kafka_tools.zookeeper.shell_arguments import COMMANDS, Arguments, CommandError, check_path
from understudy.kafka_tools.zookeeper.tree import BATCH, delete_tree, tree_below

VERSION: Final = "3.8.4-9316c2a7a97e1666d8f4593f34dd6fc36ecc436c, built on 2024-02-12 22:16 UTC"
"""The release of ZooKeeper whose shell Kafka 3.9.1 ships."""
OPEN_ACL: Final = "world:anyone:cdrwa"
"""The ACL that every znode gets."""

_MESSAGES: Final = {
    Failure.NO_NODE: "Node does not exist: ",
    Failure.NO_CHILDREN_FOR_EPHEMERALS: "Ephemerals cannot have children: ",
    Failure.NODE_EXISTS: "Node already exists: ",
    Failure.NOT_EMPTY: "Node not empty: ",
    Failure.NO_AUTH: "Insufficient permission : ",
    Failure.BAD_ARGUMENTS: "Arguments are not valid : ",
    Failure.BAD_VERSION: "version No is not valid : ",
    Failure.SESSION_EXPIRED: "KeeperErrorCode = Session expired for ",
}
_LS_HELP: Final = "usage: ls [options] path\n -?   help\n -R   recurse\n -s   stat\n -w   watch"
_T = TypeVar("_T")


def succeeded(answer: _T | Failure, path: str) -> _T:
    """Return an answer; raises CommandError with the shell's message for a failure."""
    if isinstance(answer, Failure):
        raise CommandError(_MESSAGES.get(answer, "KeeperErrorCode = ConnectionLoss for ") + path)
    return answer


async def ls(client: ZooKeeperClient, words: Sequence[str], console: Console) -> None:
    """List the children of a znode, or all below it."""
    flags = {"?": False, "s": False, "w": False, "R": False}
    given = _with_watch(words, flags, console)
    if given.has("?"):
        console.print(_LS_HELP)
    path = given.path(_usage("ls"))
    check_path(path)
    if given.has("R"):
        succeeded(await client.get(path, watch=given.has("w")), path)
        console.print(path)
        await _print_below(client, path, console, watch=given.has("w"))
        return
    listed = succeeded(await client.children(path, watch=given.has("w")), path)
    console.print(f"[{', '.join(listed.names)}]")
    if given.has("s"):
        _print_stat(listed.stat, console)


async def _print_below(client: ZooKeeperClient, path: str, console: Console, *, watch: bool) -> None:
    """Print the paths below a znode: of each folder all children, then the children of the first child."""
    listed = await client.children(path, watch=watch)
    if listed is Failure.NO_NODE:
        return
    below = [f"{path.rstrip('/')}/{name}" for name in succeeded(listed, path).names]
    for each in below:
        console.print(each)
    for each in below:
        await _print_below(client, each, console, watch=watch)


async def get(client: ZooKeeperClient, words: Sequence[str], console: Console) -> None:
    """Print the data of a znode."""
    given = _with_watch(words, {"s": False, "w": False}, console)
    path = given.path(_usage("get"))
    check_path(path)
    node = succeeded(await client.get(path, watch=given.has("w")), path)
    console.print("null" if node.is_null else node.data.decode("utf-8", "replace"))
    if given.has("s"):
        _print_stat(node.stat, console)


async def stat(client: ZooKeeperClient, words: Sequence[str], console: Console) -> None:
    """Print the stat of a znode."""
    given = _with_watch(words, {"w": False}, console)
    path = given.path(_usage("stat"))
    check_path(path)
    _print_stat(succeeded(await client.exists(path, watch=given.has("w")), path), console)


async def create(client: ZooKeeperClient, words: Sequence[str], console: Console) -> None:
    """Create a znode."""
    given = Arguments(words, {"e": False, "s": False, "c": False, "t": True})
    path = given.path(_usage("create"))
    for letter, kind in (("c", "container znodes"), ("t", "a time to live")):
        if given.has(letter):
            raise CommandError(f"-{letter} is not supported by this shell: it creates no znodes with {kind}")
    if len(given.args) > 3 and given.args[3] != OPEN_ACL:
        raise CommandError(f"The ACL {given.args[3]} is not supported by this shell; leave it out, or give {OPEN_ACL}")
    check_path(path, is_sequential=given.has("s"))
    data = given.args[2].encode() if len(given.args) > 2 else None
    created = await client.write(Create(path, data, ephemeral=given.has("e"), sequential=given.has("s")))
    done = succeeded(created, path)
    assert isinstance(done, Created)
    console.error(f"Created {done.path}")


async def set_data(client: ZooKeeperClient, words: Sequence[str], console: Console) -> None:
    """Set the data of a znode."""
    given = Arguments(words, {"s": False, "v": True})
    if len(given.args) < 3:
        raise CommandError(_usage("set"))
    path = given.args[1]
    check_path(path)
    data, version = given.args[2].encode(), given.number("v", MATCH_ANY_VERSION)
    done = succeeded(await client.write(SetData(path, data, version)), path)
    assert isinstance(done, Updated)
    if given.has("s"):
        _print_stat(done.stat, console)


async def delete(client: ZooKeeperClient, words: Sequence[str], console: Console) -> None:
    """Delete a znode without children."""
    given = Arguments(words, {"v": True})
    path = given.path(_usage("delete"))
    if len(given.args) > 2:
        console.error("'delete path [version]' has been deprecated. Please use 'delete [-v version] path' instead.")
    check_path(path)
    succeeded(await client.write(Delete(path, given.number("v", MATCH_ANY_VERSION))), path)


async def delete_all(client: ZooKeeperClient, words: Sequence[str], console: Console) -> None:
    """Delete a znode with all below it."""
    given = Arguments(words, {"b": True})
    path = given.path(_usage("deleteall"))
    check_path(path)
    if not succeeded(await delete_tree(client, path, max(given.number("b", BATCH), 1)), path):
        console.error("Failed to delete some node(s) in the subtree!")


async def count_all_children(client: ZooKeeperClient, words: Sequence[str], console: Console) -> None:
    """Print the number of znodes below one."""
    path = Arguments(words, {}).path(_usage("getAllChildrenNumber"))
    check_path(path)
    console.print(str(len(succeeded(await tree_below(client, path), path)) - 1))


Command = Callable[[ZooKeeperClient, Sequence[str], Console], Awaitable[None]]

ON_ZNODES: Final[dict[str, Command]] = {
    "create": create,
    "delete": delete,
    "deleteall": delete_all,
    "get": get,
    "getAllChildrenNumber": count_all_children,
    "ls": ls,
    "set": set_data,
    "stat": stat,
}
"""The commands by name."""


def _with_watch(words: Sequence[str], flags: dict[str, bool], console: Console) -> Arguments:
    """Parse a command whose second argument was the word `watch` in old releases."""
    given = Arguments(words, flags)
    if len(given.args) <= 2:
        return given
    name = words[0]
    options = "[-s] [-w]" if name == "get" else "[-w]"
    console.error(f"'{name} path [watch]' has been deprecated. Please use '{name} {options} path' instead.")
    return Arguments([*words[:2], "-w", *words[3:]], flags)


def _usage(name: str) -> str:
    return f"{name} {COMMANDS[name]}"


def _print_stat(stat: Stat, console: Console) -> None:
    console.print(
        f"cZxid = 0x{stat.czxid:x}\n"
        f"ctime = {_date(stat.ctime_ms)}\n"
        f"mZxid = 0x{stat.mzxid:x}\n"
        f"mtime = {_date(stat.mtime_ms)}\n"
        f"pZxid = 0x{stat.pzxid:x}\n"
        f"cversion = {stat.cversion}\n"
        f"dataVersion = {stat.version}\n"
        f"aclVersion = {stat.acl_version}\n"
        f"ephemeralOwner = 0x{stat.ephemeral_owner & 0xFFFF_FFFF_FFFF_FFFF:x}\n"
        f"dataLength = {stat.data_length}\n"
        f"numChildren = {stat.num_children}"
    )


def _date(ms: int) -> str:
    """Return a time as Java's `Date.toString` has it, in the time zone of the machine."""
    return f"{datetime.fromtimestamp(ms // 1000).astimezone():%a %b %d %H:%M:%S %Z %Y}"
