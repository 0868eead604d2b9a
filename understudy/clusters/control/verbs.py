"""`ClusterVerbs`: does the verbs on a `LocalCluster`, one after the other, and undoes them after their duration."""

from __future__ import annotations

import contextlib
import secrets
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

from understudy.clusters.answers import AnswerHandle, arm_at, armed_answer
from understudy.clusters.cluster import ClusterError, check_point
from understudy.clusters.control.bodies import Answer, Arm, OnTarget, OnTargetFor
from understudy.clusters.control.job_thread import JobThread
from understudy.clusters.control.waiting_undos import WaitingUndos, ended_by
from understudy.clusters.control.zookeeper_handle import ZooKeeperHandle
from understudy.clusters.problems import BadValue, one_of
from understudy.clusters.processes import linux
from understudy.clusters.processes.cluster_summary import summary
from understudy.clusters.processes.cluster_view import NO_ANSWER, ClusterView
from understudy.clusters.processes.local_broker import LocalBroker
from understudy.clusters.processes.local_cluster import LocalCluster
from understudy.clusters.processes.run_folder import read_cluster_file
from understudy.clusters.processes.zookeeper_server import ZooKeeperNotStarted
from understudy.clusters.targets import Resolver
from understudy.clusters.values import OF_USERS, Target, parse_duration, parse_target
from understudy.clusters.verb_table import ARM, GONE, PAUSED, RUNNING, TARGETS, VERBS
from understudy.clusters.zookeeper_servers import LEADER
from understudy.foundation.times import duration
from understudy.foundation.wire.armed_answers import ArmedAnswer

ANSWER_TIMEOUT_S: Final = 5.0
"""Time within which ZooKeeper has to answer which broker has a role."""
CLOSE_TIMEOUT_S: Final = 10.0
NO_BROKER: Final = "no broker is running that is not paused"
_ENDING_S: Final = 5.0
_REASONS: Final = {GONE: "it is not running", PAUSED: "it is paused already", RUNNING: "it is not paused"}
"""Reasons why most verbs cannot be done to a process, by its state."""

Handle: TypeAlias = LocalBroker | ZooKeeperHandle


class VerbRequest(NamedTuple):
    """A verb with its target, both checked.

    Attributes:
        lasts_ms: the number of milliseconds after which it is undone; None if it is not.
        point: for `arm`, the named point; otherwise empty.
        action: for `arm`, the action at this point; otherwise empty.
        answer: for `answer`, the answer, without its name; otherwise None.
    """

    verb: str
    target: Target
    lasts_ms: float | None = None
    point: str = ""
    action: str = ""
    answer: ArmedAnswer | None = None


class VerbOutcome(NamedTuple):
    """The result of a verb.

    Attributes:
        done: the names of the processes that it acted on.
        skipped: the reasons why some of several brokers were left out. `all` means those that are in the state for
            the verb, so that it leaves out none.
        note: the undo that follows later, or the armed answer, in words; empty if there is none.
        answer: the id of the answer that was armed, as `Commanded.answers` has it; empty if none was.
    """

    verb: str
    done: tuple[str, ...]
    skipped: tuple[str, ...] = ()
    note: str = ""
    answer: str = ""

    def __str__(self) -> str:
        words = f"{', '.join(self.done)} {VERBS[self.verb].done}"
        return "; ".join(filter(None, (words, self.note, *self.skipped)))


def checked(verb: str, body: OnTarget) -> VerbRequest:
    """Check the target and the duration of a request.

    Raises:
        BadValue: a value is wrong, or the verb cannot be done to such a target. The message names the expected values.
    """
    target = _target(body.target)
    if target.role == "zookeeper" and not VERBS[verb].on_zookeeper:
        able = ", ".join(name for name, each in VERBS.items() if each.on_zookeeper)
        raise BadValue(f"zookeeper cannot be the target of {verb}; it can be that of {able}")
    if isinstance(body, Arm):
        try:
            check_point(body.point, body.action)
        except ClusterError as error:
            raise BadValue(str(error)) from None
        return VerbRequest(verb, target, point=body.point, action=body.action)
    if isinstance(body, Answer):
        answer = armed_answer(
            body.api,
            body.error,
            times=body.times,
            topic=body.topic,
            partition=body.partition,
            client_id=body.client,
            then=body.then,
            throttle_ms=body.throttle_ms,
        )
        return VerbRequest(verb, target, answer=answer)
    lasts_ms = None
    if isinstance(body, OnTargetFor) and body.lasts is not None:
        lasts_ms = parse_duration(body.lasts)
        if lasts_ms <= 0:
            raise BadValue(f"{body.lasts!r} is no duration that can pass; expected for example 5s")
    return VerbRequest(verb, target, lasts_ms)


def _target(text: str) -> Target:
    """Return a target that is not a name, which only experiments can give. Raises BadValue."""
    try:
        target = parse_target(text)
    except BadValue:
        if ":" in text or "(" in text:
            raise
    else:
        if target.role != "bound" and target.role not in OF_USERS:
            return target
    raise one_of(text, tuple(TARGETS), "target")


class Commanded(Protocol):
    """A running cluster, as the control port acts on it."""

    def begin(self, request: VerbRequest) -> Future[VerbOutcome]:
        """Do a verb when the verbs before it are done. It may wait for ZooKeeper in the calling thread.

        It raises, and so does the future: ClusterError if the verb is refused, one of `NO_ANSWER` if ZooKeeper
        does not answer, ZooKeeperNotStarted, and OSError if the fault cannot be recorded.
        """

    def bootstrap(self) -> list[str]:
        """Return the addresses of the brokers that can answer: a paused one would accept a connection and stay silent.

        Raises:
            ClusterError: there is none.
        """

    def described(self, view: ClusterView) -> dict[str, Any]:
        """Return the answer of `GET /cluster`.

        Args:
            view: reads the cluster in ZooKeeper.

        Raises:
            ClusterError, NotARunFolder: the cluster has ended.
            One of `NO_ANSWER`: ZooKeeper does not answer.
        """

    def answers(self) -> list[AnswerHandle]:
        """Return the answers that verbs have armed, in the order in which they were armed."""

    def close(self) -> None:
        """Do no further verb, and do the undos that are still needed."""


class ClusterVerbs:
    """Does verbs on the processes that one cluster has started, and on no others.

    Args:
        cluster: a cluster that has started. Until `close` has returned, only this object acts on it.
        report: is called with a line for each verb that was done and for each undo.
    """

    def __init__(self, cluster: LocalCluster, report: Callable[[str], None]) -> None:
        self.cluster = cluster
        self._report = report
        self._jobs = JobThread("understudy-verbs")
        self._view = ClusterView(cluster.zookeeper_connect, answer_timeout_s=ANSWER_TIMEOUT_S)
        self._reading = threading.Lock()
        self._undos = WaitingUndos(self._jobs)
        self._to_undo: dict[tuple[str, str], Handle] = {}
        """Processes with a fault that must be undone before the cluster can stop in order, by name and undoing verb."""

    def begin(self, request: VerbRequest) -> Future[VerbOutcome]:
        """Do a verb on the processes that its target means now; see `Commanded`."""
        handles = self._find(request)
        return self._jobs.submit(lambda: self._do(request, handles))

    def bootstrap(self) -> list[str]:
        """Return the addresses of the brokers that can answer; see `Commanded`."""
        brokers = [each for each in self.cluster.brokers if each.is_running and not each.is_paused]
        if not brokers:
            raise ClusterError(NO_BROKER)
        return [broker.address for broker in brokers]

    def described(self, view: ClusterView) -> dict[str, Any]:
        """Return what `GET /cluster` answers; see `Commanded`."""
        entry = read_cluster_file(self.cluster.directory)
        return {
            **summary(view.picture(), entry),
            "run": entry.run,
            "bootstrap": entry.bootstrap,
            "zookeeper": entry.zookeeper,
            "session_timeout_ms": self.cluster.session_timeout_ms,
            "is_proxied": self.cluster.is_proxied,
        }

    def answers(self) -> list[AnswerHandle]:
        """Return the answers that verbs have armed; see `Commanded`."""
        return list(self.cluster.answers)

    def close(self) -> None:
        """Do no further verb, and undo the faults that would keep the cluster from stopping in order.

        These are an isolation, a paused broker, and a ZooKeeper that a verb has paused or ended: while the controller
        or ZooKeeper is paused, no broker can finish its controlled shutdown.
        """
        has_ended = self._jobs.close(CLOSE_TIMEOUT_S)
        if has_ended:
            with contextlib.suppress(ClusterError):  # The cluster has not been started.
                self._to_undo |= {(each.name, "resume"): each for each in self.cluster.brokers if each.is_paused}
            for (_, undo), handle in sorted(self._to_undo.items(), key=lambda item: item[0]):
                with contextlib.suppress(ClusterError, ZooKeeperNotStarted, *NO_ANSWER):
                    _do_to(handle, undo)
                    self._report(f"{handle.name} {VERBS[undo].done}, so that the cluster can stop in order")
            self._to_undo.clear()
            for missed in (answer.missed for answer in self.cluster.answers if not answer.hits):
                self._report(missed)
        self._view.close()

    # ------------------------------------------------------------------ one verb

    def _do(self, request: VerbRequest, handles: Sequence[Handle]) -> VerbOutcome:
        reasons = {handle.name: self._refusal(request.verb, handle) for handle in handles}
        skipped = left_out(request, reasons)
        able = [handle for handle in handles if not reasons[handle.name]]
        names = tuple(f"{handle.name} ({handle.role})" if handle.role else handle.name for handle in able)
        if request.answer is not None:
            brokers = [handle for handle in able if isinstance(handle, LocalBroker)]
            armed = arm_at(brokers, request.answer, self.cluster.answers)
            return self._reported(VerbOutcome(request.verb, names, skipped, str(armed.answer), armed.id))
        for handle in able:
            if request.verb == ARM:
                assert isinstance(handle, LocalBroker)
                handle.arm(request.point, request.action)
            else:
                _do_to(handle, request.verb)
            self._note(request.verb, handle)
            if request.lasts_ms is not None:
                undo = VERBS[request.verb].undo
                self._undos.later(handle.name, undo, request.lasts_ms, partial(self._undo, handle, undo))
        return self._reported(VerbOutcome(request.verb, names, skipped, note_of(request)))

    def _reported(self, outcome: VerbOutcome) -> VerbOutcome:
        self._report(str(outcome))
        return outcome

    def _refusal(self, verb: str, handle: Handle) -> str:
        """The reason why a process is not in the state for a verb; empty if it is."""
        if isinstance(handle, LocalBroker):
            _await_end(handle)
        if isinstance(handle, LocalBroker) and not handle.is_running:
            # Also if it was ended from outside: later waits for other brokers must not fail because of it.
            handle.process.should_run = False
        states = VERBS[verb].states
        state = PAUSED if handle.is_running and handle.is_paused else RUNNING if handle.is_running else GONE
        reason = ""
        if states and state not in states:
            reason = "it is running" if states == (GONE,) else _REASONS[state]
        elif verb in ("isolate", "heal") and not self.cluster.is_proxied:
            reason = "its traffic goes through no proxy; start the cluster with `understudy up --proxied`"
        return reason

    def _note(self, verb: str, handle: Handle) -> None:
        """Leave out the undos that a verb has made pointless, and note the undo that is needed at the end."""
        self._undos.note(verb, handle.name)
        for undo in ended_by(verb):
            self._to_undo.pop((handle.name, undo), None)
        undo = VERBS[verb].undo
        if undo and (isinstance(handle, ZooKeeperHandle) or undo == "heal"):
            self._to_undo[handle.name, undo] = handle

    def _undo(self, handle: Handle, undo: str) -> None:
        try:
            reason = self._refusal(undo, handle)
            if reason:
                self._report(_refused(handle.name, undo, reason))
                return
            _do_to(handle, undo)
            self._note(undo, handle)
        except (ClusterError, ZooKeeperNotStarted, OSError, *NO_ANSWER) as error:
            self._report(str(error))
        else:
            self._report(f"{handle.name} {VERBS[undo].done}")

    # ------------------------------------------------------------------ targets

    def _find(self, request: VerbRequest) -> Sequence[Handle]:
        """Return the processes that the target of a request means now.

        It may wait for ZooKeeper, and does so in the calling thread: an undo that is due does not wait for it.

        Raises:
            ClusterError: there are none, or they do not belong to this cluster.
            One of `NO_ANSWER`: ZooKeeper does not answer which broker has a role.
        """
        with self._reading:
            handles = self._resolve(request.target)
            if request.verb == "depose":
                controller = self._view.controller_id()
                names = ", ".join(each.name for each in handles)
                handles = [each for each in handles if isinstance(each, LocalBroker) and each.id == controller]
                if not handles:
                    owner = "no broker" if controller is None else f"broker {controller}"
                    raise ClusterError(f"{names} cannot be deposed: {owner} is the controller")
            return handles

    def _resolve(self, target: Target) -> Sequence[Handle]:
        """Return the processes that a target means now.

        Raises:
            ClusterError: there are none, or they do not belong to this cluster.
        """
        if target.role == "zookeeper":
            numbers, ensemble = self.cluster.zookeeper_servers(target.name), self.cluster.embedded_zookeeper
            assert ensemble is not None
            role = LEADER if target.name == LEADER and len(ensemble.servers) > 1 else ""
            return [ZooKeeperHandle(self.cluster, ensemble, number, role) for number in numbers]
        resolver = Resolver(
            self.cluster.broker_ids,
            lambda broker_id: self.cluster.broker(broker_id).process.rack,
            lambda: [broker.id for broker in self.cluster.brokers if broker.is_running],
            self._view.controller_id,
            self._view.leader,
            self._view.isr,
        )
        found, role = resolver.resolve(target, secrets.choice)
        for broker_id in found if role else ():
            if broker_id not in self.cluster.broker_ids:
                raise ClusterError(f"the {role} is broker {broker_id}, which this cluster did not start")
        if role:
            return [LocalBroker(self.cluster, broker_id, role) for broker_id in found]
        return [self.cluster.broker(broker_id) for broker_id in found]


def _await_end(broker: LocalBroker) -> None:
    """Wait for the end of a process that is ending; it cannot be reaped before all its threads have ended."""
    child = broker.process.process
    if child is not None and child.is_running and linux.start_time(child.pid) != child.started:
        child.wait(_ENDING_S)


def left_out(request: VerbRequest, reasons: Mapping[str, str]) -> tuple[str, ...]:
    """Return the sentences about the processes on which a verb cannot act.

    Args:
        reasons: by the name of each process that the target means, the reason why the verb cannot be done to it; empty
            if it can.

    Raises:
        ClusterError: it can be done to none of them.
    """
    sentences = tuple(_refused(name, request.verb, reason) for name, reason in reasons.items() if reason)
    is_for_all = request.target.role == "all"
    if any(not reason for reason in reasons.values()):
        return () if is_for_all else sentences
    if is_for_all:
        names = {reason: [name for name, each in reasons.items() if each == reason] for reason in reasons.values()}
        groups = "; ".join(f"{', '.join(named)}: {reason}" for reason, named in names.items())
        raise ClusterError(f"no broker can be {VERBS[request.verb].done} ({groups})")
    raise ClusterError("; ".join(sentences) or f"no broker is {request.target} at this moment")


def _refused(name: str, verb: str, reason: str) -> str:
    return f"{name} cannot be {VERBS[verb].done}: {reason}"


def note_of(request: VerbRequest) -> str:
    """Return the undo that follows a verb later, in words; empty if none follows."""
    if request.lasts_ms is None:
        return ""
    return f"to be {VERBS[VERBS[request.verb].undo].done} after {duration(request.lasts_ms)}"


def _do_to(handle: Handle, verb: str) -> None:
    """Do a verb without further arguments, by the method of its name."""
    getattr(handle, verb)()
