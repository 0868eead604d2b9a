"""`ComposeVerbs`: does the verbs on the containers of a compose project, by the `docker` command.

It acts on the services `broker-N` and `zookeeper` of one project, and on no other container. Each fault is recorded in
the folder of the event logs that the containers share with this machine, before it is injected.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import secrets
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from foundation.eventlog.records import FaultInjected, ProcessStarted
from understudy.cluster import ClusterError, Unsupported
from understudy.control.verb_table import VERBS
from understudy.control.verbs import ANSWER_TIMEOUT_S, VerbRequest
from understudy.experiments.language.values import Target, duration
from understudy.testbed.cluster_view import ClusterView
from understudy.testbed.run_folder import this_process
from understudy.testbed.testbed_log import TestbedLog

COMMAND_TIMEOUT_S: Final = 120.0
EVENTS_TARGET: Final = "/run/understudy"
"""Where the compose file mounts the folder of the event logs in a broker's container."""
_PAUSE_ATTEMPTS: Final = 20
_PAUSE_WAIT_S: Final = 0.25

_COMMANDS: Final[Mapping[str, tuple[str, ...]]] = {
    "kill": ("kill",),
    "pause": ("pause",),
    "resume": ("unpause",),
    "stop": ("stop",),
    "start": ("start",),
    "restart": ("restart",),
}
"""The command of `docker compose` for a verb."""
_FAULTS: Final = {"resume": "continue"}
"""The name of a verb in the event log, where that is another one."""
_STATES: Final[Mapping[str, tuple[str, ...]]] = {
    "kill": ("running", "paused"),
    "pause": ("running",),
    "resume": ("paused",),
    "stop": ("running", "paused"),
    "start": ("exited", "created", "dead"),
    "depose": ("running", "paused"),
    "isolate": ("running", "paused"),
    "heal": ("running", "paused"),
}
"""The states of a container in which a verb can be done; `restart` in all."""


class Service(NamedTuple):
    """A broker or ZooKeeper of the project, as the resolved compose file has it.

    Attributes:
        broker_id: None of ZooKeeper.
    """

    name: str
    broker_id: int | None
    rack: str = ""


class Done(NamedTuple):
    """A verb that was done.

    Attributes:
        undo: the verb that ends it after the duration; empty where none was given.
    """

    message: str
    services: tuple[Service, ...]
    undo: str = ""


class ComposeVerbs:
    """The verbs on one project.

    Args:
        folder: the folder of the compose file.
        config: the resolved compose file, as `docker compose config --format json` prints it.
    """

    def __init__(self, folder: Path, config: Mapping[str, Any]) -> None:
        self._folder = folder
        self._config = config
        self.services = _services(config)
        if not self.services:
            raise ClusterError(f"{folder} has no compose file with services broker-1, broker-2, …")

    @classmethod
    def of_project(cls, folder: Path) -> ComposeVerbs:
        """Read the compose file in `folder`.

        Raises:
            ClusterError: docker is missing, or there is no compose file with brokers.
        """
        return cls(folder, json.loads(_docker(folder, "compose", "config", "--format", "json")))

    def do(self, request: VerbRequest) -> Done:
        """Do a verb.

        Raises:
            ClusterError: it is refused, cannot be recorded, or the command of docker failed.
            Unsupported: no command of docker does it.
            One of `NO_ANSWER`: ZooKeeper does not answer which broker has a role.
        """
        verb = VERBS[request.verb]
        if not verb.on_compose:
            raise Unsupported(f"{request.verb} cannot be done to containers; use a cluster of `understudy up`")
        services, role = self._resolve(request.target)
        states = self._states()
        refusals = {service.name: self._refusal(request.verb, service, states) for service in services}
        able = tuple(service for service in services if not refusals[service.name])
        skipped = [reason for reason in refusals.values() if reason]
        if not able:
            raise ClusterError("; ".join(skipped) or f"no broker is {request.target} at this moment")
        self._inject(request.verb, able, role)
        names = ", ".join(service.name for service in able)
        parts = [f"{names}{f' ({role})' if role else ''} {verb.done}"]
        if request.lasts_ms is not None:
            parts.append(f"to be {VERBS[verb.undo].done} after {duration(request.lasts_ms)}")
        return Done("; ".join([*parts, *skipped]), able, verb.undo if request.lasts_ms is not None else "")

    def undo(self, done: Done) -> str:
        """End what a verb has done, where that still holds, and return what was done. Raises as `do`."""
        states = self._states()
        able = tuple(service for service in done.services if not self._refusal(done.undo, service, states))
        self._inject(done.undo, able, "")
        return f"{', '.join(service.name for service in able) or 'nothing'} {VERBS[done.undo].done}"

    # ------------------------------------------------------------------ targets

    def _resolve(self, target: Target) -> tuple[Sequence[Service], str]:
        """Return the services that a target means now, and the role by which they were found."""
        brokers = [service for service in self.services if service.broker_id is not None]
        match target.role:
            case "zookeeper":
                return [service for service in self.services if service.broker_id is None], ""
            case "broker":
                return [self._broker(target.broker_id, "")], ""
            case "all":
                return brokers, ""
            case "random":
                states = self._states()
                running = [service for service in brokers if states.get(service.name) == "running"]
                return [secrets.choice(running)] if running else [], ""
            case "rack":
                found = [service for service in brokers if service.rack == target.name]
                if not found:
                    racks = ", ".join(sorted({service.rack for service in brokers if service.rack})) or "none"
                    raise ClusterError(f"no broker is in rack {target.name!r}; the racks are: {racks}")
                return found, f"rack {target.name}"
        with self._view() as view:
            if target.role == "controller":
                return [self._broker(view.controller_id(), "controller")], "controller"
            assert target.partition is not None
            role = f"{target.role} of {target.partition}"
            leader = view.leader(target.partition)
            if target.role == "leader":
                return [self._broker(leader, role)], role
            followers = [broker_id for broker_id in view.isr(target.partition) if broker_id != leader]
            return [self._broker(secrets.choice(followers) if followers else None, role)], role

    def _broker(self, broker_id: int | None, role: str) -> Service:
        if broker_id is None:
            raise ClusterError(f"no broker is {role} at this moment")
        found = [service for service in self.services if service.broker_id == broker_id]
        if not found:
            known = ", ".join(str(service.broker_id) for service in self.services if service.broker_id is not None)
            raise ClusterError(f"there is no broker {broker_id}; this project has {known}")
        return found[0]

    def _view(self) -> ClusterView:
        for port in self._config["services"].get("zookeeper", {}).get("ports", ()):
            if published := port.get("published"):
                host = port.get("host_ip") or "127.0.0.1"
                return ClusterView(f"{host}:{published}", answer_timeout_s=ANSWER_TIMEOUT_S)
        raise ClusterError("the compose file publishes no port of zookeeper, which a role or `depose` needs")

    # ------------------------------------------------------------------ states

    def _states(self) -> dict[str, str]:
        """The state of each service's container, such as `running`, `paused` or `exited`."""
        return {each["Service"]: each["State"] for each in self._containers()}

    def _containers(self) -> list[dict[str, Any]]:
        output = _docker(self._folder, "compose", "ps", "--all", "--format", "json").strip()
        if output.startswith("["):  # Compose before 2.21 prints one array, later versions an object in each line.
            found: list[dict[str, Any]] = json.loads(output)
            return found
        return [json.loads(line) for line in output.splitlines()]

    def _refusal(self, verb: str, service: Service, states: Mapping[str, str]) -> str:
        """Why a container is not in the state for a verb; empty where it is."""
        state = states.get(service.name)
        if state is None:
            return f"{service.name} cannot be {VERBS[verb].done}: it has no container; `docker compose up` creates it"
        if verb in _STATES and state not in _STATES[verb]:
            return f"{service.name} cannot be {VERBS[verb].done}: its container is {state}"
        return ""

    # ------------------------------------------------------------------ commands

    def _inject(self, verb: str, services: Sequence[Service], role: str) -> None:
        if not services:
            return
        with self._event_log() as events:
            for service in services:
                if verb == "depose":
                    self._depose(service, events)
                    continue
                events.append(FaultInjected(fault=_FAULTS.get(verb, verb), target=service.name, role=role))
                if verb == "isolate":
                    _docker(self._folder, "network", "disconnect", self._network(), self._container(service))
                elif verb == "heal":
                    alias = ("--alias", service.name)
                    _docker(self._folder, "network", "connect", *alias, self._network(), self._container(service))
                else:
                    self._command(verb, service)

    def _command(self, verb: str, service: Service) -> None:
        """Run a command of compose. On a busy machine the engine may be unable to freeze a container at once."""
        for attempts_left in reversed(range(_PAUSE_ATTEMPTS if verb == "pause" else 1)):
            try:
                _docker(self._folder, "compose", *_COMMANDS[verb], service.name)
            except ClusterError as error:
                if not attempts_left or "unable to freeze" not in str(error):
                    raise
                time.sleep(_PAUSE_WAIT_S)
            else:
                return

    def _depose(self, service: Service, events: TestbedLog) -> None:
        assert service.broker_id is not None
        with self._view() as view:
            if view.controller_id() != service.broker_id:
                raise ClusterError(f"{service.name} cannot be deposed: it is not the controller")
            events.append(FaultInjected(fault="depose", target=service.name, role="controller"))
            view.delete_controller(service.broker_id)

    def _network(self) -> str:
        network = self._config.get("networks", {}).get("default", {}).get("name")
        if not network:
            raise ClusterError(
                "the compose project has no default network from which a container could be disconnected"
            )
        return str(network)

    def _container(self, service: Service) -> str:
        return next(str(each["ID"]) for each in self._containers() if each["Service"] == service.name)

    # ------------------------------------------------------------------ the event log

    @contextlib.contextmanager
    def _event_log(self) -> Iterator[TestbedLog]:
        """Open an event log beside those of the brokers.

        Raises:
            ClusterError: its folder cannot be written, or the compose file shares none with the brokers.
        """
        folder = _events_folder(self._config) / "testbed" / "events"
        try:
            events = TestbedLog(folder, run=_overrides(self._config, "broker-1").get("understudy.run.id", "compose"))
            events.append(ProcessStarted(role="testbed", pid=this_process().pid))
        except OSError as error:
            raise ClusterError(
                f"nothing was done: it cannot be recorded in {folder}: {error.strerror}; the folder belongs to the "
                "user of the containers (uid 1000)"
            ) from None
        try:
            yield events
        finally:
            events.close("the verb is done")


def _services(config: Mapping[str, Any]) -> tuple[Service, ...]:
    found = []
    for name in sorted(config.get("services", {})):
        overrides = _overrides(config, name)
        if name == "zookeeper":
            found.append(Service(name, None))
        elif name.startswith("broker-") and name[7:].isdecimal():
            found.append(Service(name, int(name[7:]), overrides.get("broker.rack", "")))
    return tuple(found) if any(service.broker_id is not None for service in found) else ()


def _overrides(config: Mapping[str, Any], service: str) -> dict[str, str]:
    """The `KEY=VALUE` arguments of `--override` in a service's entrypoint and command."""
    described = config["services"].get(service, {})
    words = [*(described.get("entrypoint") or ()), *(described.get("command") or ())]
    given = (word.partition("=") for flag, word in itertools.pairwise(words) if flag == "--override")
    return {key: value for key, _, value in given}


def _events_folder(config: Mapping[str, Any]) -> Path:
    for volume in config["services"].get("broker-1", {}).get("volumes", ()):
        if volume.get("target") == EVENTS_TARGET and volume.get("type") == "bind":
            return Path(volume["source"])
    raise ClusterError(
        f"nothing was done: it cannot be recorded; the compose file mounts no folder at {EVENTS_TARGET} of broker-1"
    )


def _docker(folder: Path, *arguments: str) -> str:
    """Run the docker command in the project's folder, and return what it printed.

    Raises:
        ClusterError: there is no such command, it failed, or it did not end in time.
    """
    if not folder.is_dir():
        raise ClusterError(f"{folder} is no folder; give that of the compose file")
    command = ["docker", *arguments]
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=COMMAND_TIMEOUT_S, check=False
        )
    except FileNotFoundError:
        raise ClusterError("there is no docker on the PATH; --compose needs the docker command") from None
    except subprocess.TimeoutExpired:
        raise ClusterError(f"not done within {COMMAND_TIMEOUT_S:g} s: {' '.join(command)}") from None
    if done.returncode != 0:
        last = " ".join(done.stderr.strip().splitlines()[-3:])
        raise ClusterError(f"`{' '.join(command)}` failed: {last}")
    return done.stdout
