"""What injected faults do to processes, sessions and links; a part of `tests.understudy.page.folding.fold`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from tests.understudy.page.folding import fold_nodes
from tests.understudy.page.folding.fold_paths import path_deleted
from tests.understudy.page.folding.fold_state import EventLogPicture, Life, NodePicture, with_entry, without
from tests.understudy.page.folding.fold_znodes import controller_deleted, session_ended

_ZOOKEEPER: Final = "zookeeper"
_LIFE_AFTER: Final = {
    "kill": Life.DEAD,
    "power_loss": Life.DEAD,
    "crash": Life.DEAD,
    "pause": Life.PAUSED,
    "resume": Life.RUNNING,
    "continue": Life.RUNNING,  # as older runs call it
    "stop": Life.STOPPING,
}
_ZOOKEEPER_LIFE_AFTER: Final = {**_LIFE_AFTER, "stop": Life.DEAD, "start": Life.RUNNING}
_LINK_FAULTS: Final = frozenset({"cut", "delay", "throttle", "split", "refuse", "hold-watch", "isolate"})
"""The faults of links that last until they are healed."""
_SILENCING: Final = frozenset({"cut", "refuse", "isolate"})
_ARROW: Final = " -> "


def fault_injected(picture: EventLogPicture, target: str, fault: str, us: int) -> EventLogPicture:
    """Return the picture after a fault."""
    picture = replace(picture, last_fault=f"{fault} {target}")
    if fault == "depose":
        picture = controller_deleted(picture)
    elif fault == "delete":
        picture = path_deleted(picture, target, 0)
    elif fault == "expire":
        picture = session_ended(picture, target, None)
    if target == _ZOOKEEPER and fault in _ZOOKEEPER_LIFE_AFTER:
        life = _ZOOKEEPER_LIFE_AFTER[fault]
        picture = replace(picture, zookeeper=replace(picture.zookeeper, life=life))
    picture = _link_fault(picture, target, fault, us)
    if fault in _LIFE_AFTER and target in picture.nodes:
        return _life_fault(picture, target, _LIFE_AFTER[fault], us)
    return picture


def term_forgotten(picture: EventLogPicture, name: str) -> EventLogPicture:
    """Forget a controller's memory. What it had begun to send will get no answer."""
    node = replace(
        picture.nodes[name],
        term=None,
        partition_states=MappingProxyType({}),
        replica_states=MappingProxyType({}),
        channels=MappingProxyType({}),
    )
    return replace(requests_dropped(picture, name), nodes=with_entry(picture.nodes, name, node))


def requests_dropped(picture: EventLogPicture, sender: str) -> EventLogPicture:
    """Forget the requests that a node has sent."""
    orphans = [key for key, request in picture.in_flight.items() if request.from_ == sender]
    return replace(picture, in_flight=without(picture.in_flight, orphans))


def _life_fault(picture: EventLogPicture, name: str, life: Life, us: int) -> EventLogPicture:
    def change(node: NodePicture) -> NodePicture:
        if life is Life.RUNNING:
            return fold_nodes.runs(node, us)
        if life is not Life.STOPPING:
            return fold_nodes.with_life(fold_nodes.silent(node, us), life, us)
        return node if node.life is Life.DEAD else fold_nodes.with_life(node, life, us)

    if life is Life.DEAD:
        picture = term_forgotten(picture, name)
    return _changed(picture, name, change)


def _link_fault(picture: EventLogPicture, target: str, fault: str, us: int) -> EventLogPicture:
    ends = target.split(_ARROW)
    if len(ends) > 2 or any(": " in to for to in ends[1:]):
        return picture  # single requests are not a link
    if fault == "heal":
        return _heal(picture, *ends)
    if fault not in _LINK_FAULTS:
        return picture
    others = ends[1] if len(ends) == 2 else "all"
    for one, other in _pairs(ends[0], others):
        picture = replace(picture, links=with_entry(picture.links, f"{one}{_ARROW}{other}", fault))
        if fault in _SILENCING and (other == _ZOOKEEPER or fault == "isolate") and one in picture.nodes:
            picture = _changed(picture, one, lambda node: fold_nodes.silent(node, us))
    return picture


def _heal(picture: EventLogPicture, one: str, other: str | None = None) -> EventLogPicture:
    if other is not None:
        healed = {link for a, b in _pairs(one, other) for link in (f"{a}{_ARROW}{b}", f"{b}{_ARROW}{a}")}
        links = [link for link in picture.links if link in healed]
    elif one == "all links":
        links = list(picture.links)
    else:
        links = [link for link in picture.links if link.startswith(f"{one}{_ARROW}") or link.endswith(f"{_ARROW}{one}")]
    for link in links:
        name = link.split(_ARROW)[0]
        if picture.node(name).life is Life.RUNNING:
            picture = _changed(picture, name, fold_nodes.heartbeats_arrive)
    return replace(picture, links=without(picture.links, links))


def _pairs(ones: str, others: str) -> Iterable[tuple[str, str]]:
    return ((one, other) for one in ones.split(", ") for other in others.split(", "))


def _changed(picture: EventLogPicture, name: str, change: Callable[[NodePicture], NodePicture]) -> EventLogPicture:
    return replace(picture, nodes=with_entry(picture.nodes, name, change(picture.nodes[name])))
