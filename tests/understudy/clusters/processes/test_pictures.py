"""The picture of a cluster that changes between two reads."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from understudy.clusters.processes.cluster_view import _picture
from understudy.foundation.zk.client import Failure


class Elected(Exception):
    """Ends the reading of a picture after its controller and epoch."""


def test_a_picture_never_has_an_old_controller_with_a_new_epoch() -> None:
    """Broker 2 is elected at epoch 2 after the first read, whichever it is."""
    reads: list[str] = []

    class Controller:
        async def id(self) -> int:
            reads.append("controller")
            return 1 if len(reads) == 1 else 2

    class Handle:
        async def get(self, path: str) -> Failure:
            reads.append(path)
            return Failure.NO_NODE

    class Brokers:
        async def all(self) -> Any:
            raise Elected

    store = SimpleNamespace(controller=Controller(), brokers=Brokers())
    session: Any = SimpleNamespace(store=store, handle=Handle())
    with pytest.raises(Elected):
        asyncio.run(_picture(session))
    assert reads == ["/controller_epoch", "controller"]
