"""Common parts of the commands that serve a page: the lines about its address, and the wait until it ends."""

from __future__ import annotations

from typing import Final

from understudy.cli.interruptions import Interruption
from understudy.page.served.server import PageServer

LOOK_EVERY_S: Final = 0.5


def introduce(server: PageServer) -> None:
    """Print the address of a page, and what its token is for."""
    print(f"page  {server.url}")
    if server.takes_commands:
        print("Its token lets the page send commands to the cluster; keep the address to yourself.")
    elif server.has_token:
        print("Its token lets the page lead the class; keep the address to yourself.")
    print("Open it in a browser. Ctrl-C ends.", flush=True)


def wait_for_end(server: PageServer, interruption: Interruption) -> None:
    """Return when the server has ended, or the command was interrupted."""
    while server.is_running and not interruption.wait(LOOK_EVERY_S):
        pass
