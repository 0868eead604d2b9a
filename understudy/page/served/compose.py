"""`compose_run`: the run of a compose project, followed while one of its containers runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from understudy.clusters.cluster import ClusterError
from understudy.clusters.containers.compose_project import ComposeProject
from understudy.page.recorded.runs import NoSuchRun, PageRun
from understudy.page.served.live import LiveRun
from understudy.page.served.server import open_run, runs_in


def compose_run(project: ComposeProject, wanted: str | None = None) -> tuple[PageRun, Path, Callable[[], bool]]:
    """Return the run of a project, the folder of its event logs, and a function that says whether it has ended.

    The containers write their event logs into a folder of this machine, whose monotonic clock they share. While one of
    them is running or paused, the run is a `LiveRun`.

    Args:
        wanted: the id of the run; None for the run that the compose file names.

    Raises:
        ClusterError: docker does not answer, or the compose file mounts no folder for the event logs.
        NoSuchRun: there is no log, or none of the run.
    """
    folder = project.events_folder
    name = wanted or project.run_id
    if not project.is_running():
        run, _, has_ended = open_run([folder], name)
        return run, folder, has_ended
    known = runs_in(folder)
    if known and name not in known:
        raise NoSuchRun(
            f"{folder} has no run {name!r}; it has {', '.join(sorted(known)[:10])}; choose one by --run-id, or set "
            "UNDERSTUDY_RUN_ID as for `docker compose up`"
        )
    return LiveRun(folder, name), folder, lambda: _has_ended(project)


def _has_ended(project: ComposeProject) -> bool:
    try:
        return not project.is_running()
    except ClusterError:
        return False  # An engine that does not answer now says nothing about its containers, and is asked again.
