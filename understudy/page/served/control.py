"""`PageControl`: the way from a page to the control port of its cluster."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from pathlib import Path
from typing import NamedTuple

from understudy.clusters.control.client import ControlClient
from understudy.clusters.control.control_file import NoControlPort, read_control_file
from understudy.clusters.verb_table import VERBS


class PageControl(NamedTuple):
    """A way to the control port of a cluster.

    Attributes:
        find: returns a client of the control port; None if there is none now.
        verbs: the names of the verbs that the cluster can do.
    """

    find: Callable[[], ControlClient | None]
    verbs: Collection[str] = tuple(VERBS)


def of_run_folder(folder: Path | None) -> PageControl:
    """Return the control port that the `control.json` of a run folder names; without a folder there is none."""
    return PageControl(partial(_named_in, folder) if folder is not None else lambda: None)


def of_compose(client: ControlClient) -> PageControl:
    """Return the control port of a compose project."""
    return PageControl(lambda: client, [name for name, verb in VERBS.items() if verb.on_compose])


def _named_in(folder: Path) -> ControlClient | None:
    try:
        return ControlClient(read_control_file(folder))
    except NoControlPort:
        return None
