"""`ComposeVerbs`: does the verbs on the containers of a compose project, by the `docker` command.

It acts on the services `broker-N` and `zookeeper` of one project, and on no other container. Each fault is recorded in
the folder of the event logs that the containers share with this machine, before it is injected.
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, TypeVar

from understudy.clusters.cluster import ClusterError, Unsupported
from understudy.clusters.containers.compose_project import ComposeProject, Service
from understudy.clusters.control.verbs import ANSWER_TIMEOUT_S, VerbOutcome, VerbRequest, left_out, note_of
from understudy.clusters.processes.cluster_view import ClusterView
from understudy.clusters.processes.testbed_log import EVENTS, NODE, TestbedLog
from understudy.clusters.targets import Resolver
from understudy.clusters.values import Target
from understudy.clusters.verb_table import GONE, PAUSED, RUNNING, VERBS
from understudy.foundation.eventlog.records import FaultInjected

T = TypeVar("T")

ENDED: Final = ("exited", "created", "dead")
"""The states of a container without a process, which `start` starts."""


class ComposeVerbs:
    """The verbs on one project.

    Args:
        run: the id of the run in which faults are recorded; None for the run of the compose file.
    """

    def __init__(self, project: ComposeProject, run: str | None = None) -> None:
        self._project = project
        self._run = run or project.run_id

    def do(self, request: VerbRequest, note: Callable[[Service], None] = lambda service: None) -> VerbOutcome:
        """Do a verb.

        Args:
            note: is called with each service after the verb, so that it can be undone if a later service fails.

        Raises:
            ClusterError: it is refused, cannot be recorded, or the command of docker failed.
            Unsupported: no command of docker does it.
            One of `NO_ANSWER`: ZooKeeper does not answer which broker has a role.
        """
        verb = VERBS[request.verb]
        if not verb.on_compose:
            raise Unsupported(f"{request.verb} cannot be done to containers; use a cluster of `understudy up`")
        services, role = self._resolve(request.target)
        states = self._project.statuses()
        reasons = {service.name: self._refusal(request.verb, service, states) for service in services}
        skipped = left_out(request, reasons)
        able = tuple(service for service in services if not reasons[service.name])
        self._inject(request.verb, able, role, note)
        names = tuple(f"{service.name} ({role})" if role else service.name for service in able)
        return VerbOutcome(request.verb, names, skipped, note_of(request))

    def undo(self, verb: str, services: Sequence[Service]) -> str:
        """Undo a fault by `verb` on the services whose state allows it; return the result in words. Raises as `do`."""
        states = self._project.statuses()
        able = tuple(service for service in services if not self._refusal(verb, service, states))
        self._inject(verb, able, "")
        return f"{', '.join(service.name for service in able) or 'nothing'} {VERBS[verb].done}"

    # ------------------------------------------------------------------ targets

    def _resolve(self, target: Target) -> tuple[Sequence[Service], str]:
        """Return the services that a target means now, and the role by which they were found."""
        if target.role == "zookeeper":
            if target.name:
                raise ClusterError(
                    f"{target} cannot be a target: this project has one ZooKeeper server; give zookeeper"
                )
            return [service for service in self._project.services if service.broker_id is None], ""
        brokers = {service.broker_id: service for service in self._project.services if service.broker_id is not None}

        def running() -> list[int]:
            states = self._project.statuses()
            return [broker_id for broker_id, service in brokers.items() if states.get(service.name) == RUNNING]

        resolver = Resolver(
            brokers,
            lambda broker_id: brokers[broker_id].rack,
            running,
            lambda: self._ask(ClusterView.controller_id),
            lambda partition: self._ask(lambda view: view.leader(partition)),
            lambda partition: self._ask(lambda view: view.isr(partition)),
        )
        found, role = resolver.resolve(target, secrets.choice)
        if unknown := [broker_id for broker_id in found if broker_id not in brokers]:
            raise ClusterError(f"there is no broker {unknown[0]}; this project has {', '.join(map(str, brokers))}")
        return [brokers[broker_id] for broker_id in found], role

    def _ask(self, question: Callable[[ClusterView], T]) -> T:
        with self._view() as view:
            return question(view)

    def _view(self) -> ClusterView:
        return ClusterView(self._project.zookeeper_address, answer_timeout_s=ANSWER_TIMEOUT_S)

    # ------------------------------------------------------------------ states

    def _refusal(self, verb: str, service: Service, states: Mapping[str, str]) -> str:
        """The reason why a container is not in the state for a verb; empty if it is."""
        state = states.get(service.name)
        if state is None:
            return "it has no container; `docker compose up` creates it"
        able = (RUNNING, PAUSED) if verb == "heal" else VERBS[verb].states
        if able and (GONE if state in ENDED else state) not in able:
            return f"its container is {state}"
        return ""

    # ------------------------------------------------------------------ commands

    def _inject(
        self,
        verb: str,
        services: Sequence[Service],
        role: str,
        note: Callable[[Service], None] = lambda service: None,
    ) -> None:
        if not services:
            return
        with self._event_log() as events:
            for service in services:
                if verb == "depose":
                    self._depose(service, events)
                else:
                    events.append(FaultInjected(fault=verb, target=service.name, role=role))
                    self._project.change(verb, service.name)
                note(service)

    def _depose(self, service: Service, events: TestbedLog) -> None:
        assert service.broker_id is not None
        with self._view() as view:
            if view.controller_id() != service.broker_id:
                raise ClusterError(f"{service.name} cannot be deposed: it is not the controller")
            events.append(FaultInjected(fault="depose", target=service.name, role="controller"))
            view.delete_controller(service.broker_id)

    # ------------------------------------------------------------------ the event log

    @contextlib.contextmanager
    def _event_log(self) -> Iterator[TestbedLog]:
        """Open an event log beside the brokers' event logs.

        Raises:
            ClusterError: its folder cannot be written, or the compose file shares none with the brokers.
        """
        folder = self._project.events_folder
        try:
            events = TestbedLog(folder, run=self._run)
        except OSError as error:
            raise ClusterError(
                f"nothing was done: it cannot be recorded in {folder / NODE / EVENTS}: {error.strerror}; the folder "
                "belongs to the user of the containers (uid 1000)"
            ) from None
        try:
            yield events
        finally:
            events.close("the verb is done")
