"""`ComposeControl`: serves the control port of a compose project, in a thread of the program that watches it.

`ComposeCommands` does the verbs for it, one after the other, and undoes them in time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from functools import partial
from typing import Any, Final

from understudy.clusters.answers import AnswerHandle
from understudy.clusters.cluster import ClusterError
from understudy.clusters.containers.compose_project import ComposeProject
from understudy.clusters.control.client import ControlClient
from understudy.clusters.control.compose import ComposeVerbs
from understudy.clusters.control.job_thread import JobThread
from understudy.clusters.control.server import ControlPort, listen_for_control
from understudy.clusters.control.verbs import CLOSE_TIMEOUT_S, NO_BROKER, VerbOutcome, VerbRequest
from understudy.clusters.control.waiting_undos import WaitingUndos
from understudy.clusters.processes.cluster_summary import summary
from understudy.clusters.processes.cluster_view import NO_ANSWER, ClusterView
from understudy.clusters.verb_table import GONE, PAUSED, RUNNING, VERBS

_FAILURES: Final = (ClusterError, OSError, *NO_ANSWER)


class ComposeControl(ControlPort):
    """The control port of one project; its end undoes the verbs that have a duration.

    Its address and token are in no file, only in `client`.

    Args:
        run: the id of the run in which faults are recorded.
        report: is called with a line for each verb, from another thread.

    Raises:
        ClusterError: the compose file publishes no port of ZooKeeper.
    """

    def __init__(self, project: ComposeProject, run: str, report: Callable[[str], None]) -> None:
        zookeeper = project.zookeeper_address
        listener = listen_for_control()
        super().__init__(ComposeCommands(project, run, report), zookeeper, listener)
        self.client = ControlClient(self.entry)


class ComposeCommands:
    """Does verbs on the containers of one project, and on no others.

    The containers outlive this program: `close` undoes the verbs that have a duration, and nothing else.

    Args:
        run: the id of the run in which faults are recorded.
        report: is called with a line for each verb that was done and for each undo.
    """

    def __init__(self, project: ComposeProject, run: str, report: Callable[[str], None]) -> None:
        self._project = project
        self._run = run
        self._verbs = ComposeVerbs(project, run)
        self._report = report
        self._jobs = JobThread("understudy-verbs")
        self._undos = WaitingUndos(self._jobs)

    def begin(self, request: VerbRequest) -> Future[VerbOutcome]:
        """Do a verb when the verbs before it are done; the future raises as `ComposeVerbs.do`. See `Commanded`."""
        return self._jobs.submit(lambda: self._do(request))

    def bootstrap(self) -> list[str]:
        """Return the addresses of the brokers that can answer, as this machine reaches them; see `Commanded`.

        Raises:
            ClusterError: none is running, or the compose file publishes no port of a running one.
        """
        states = self._project.statuses()
        running = [service.name for service in self._project.brokers if states.get(service.name) == RUNNING]
        if not running:
            raise ClusterError(NO_BROKER)
        addresses = [address for name in running if (address := self._project.published(name)) is not None]
        if not addresses:
            raise ClusterError(f"the compose file publishes no port of {', '.join(running)}, which clients need")
        return addresses

    def described(self, view: ClusterView) -> dict[str, Any]:
        """Return the answer of `GET /cluster`; see `Commanded`."""
        states = self._project.statuses()
        found = summary(view.picture(), None)
        addresses = [self._project.published(service.name) for service in self._project.brokers]
        return {
            **found,
            "brokers": [{**broker, "process": _process(states, broker["id"])} for broker in found["brokers"]],
            "run": self._run,
            "bootstrap": ",".join(filter(None, addresses)),
            "zookeeper": self._project.zookeeper_address,
            "session_timeout_ms": self._project.session_timeout_ms,
            "is_proxied": False,
        }

    def answers(self) -> list[AnswerHandle]:
        """Return none: `answer` is no verb for containers."""
        return []

    def close(self) -> None:
        """Do no further verb, and do the waiting undos at once."""
        has_ended = self._jobs.close(CLOSE_TIMEOUT_S)
        if has_ended:
            for name, undo in self._undos.take():
                self._undo(name, undo)

    def _do(self, request: VerbRequest) -> VerbOutcome:
        outcome = self._verbs.do(request, lambda service: self._note(request, service.name))
        self._report(str(outcome))
        return outcome

    def _note(self, request: VerbRequest, name: str) -> None:
        self._undos.note(request.verb, name)
        if request.lasts_ms is not None:
            undo = VERBS[request.verb].undo
            self._undos.later(name, undo, request.lasts_ms, partial(self._undo, name, undo))

    def _undo(self, name: str, undo: str) -> None:
        services = [service for service in self._project.services if service.name == name]
        try:
            done = self._verbs.undo(undo, services)
        except _FAILURES as error:
            done = f"{name} was not {VERBS[undo].done}: {error}"
        self._report(done)


def _process(states: Mapping[str, str], broker_id: int) -> str:
    """The state of a broker's process in the words of a local cluster: `running`, `paused` or `gone`."""
    state = states.get(f"broker-{broker_id}", "")
    return state if state in (RUNNING, PAUSED) else GONE
