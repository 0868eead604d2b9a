"""`understudy kill`, `pause`, `isolate`, …: act on a cluster that runs, by its control port or through compose."""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any, Final

from understudy.cli.arguments import BadInput, Failed, reported_as
from understudy.cli.command_parser import PreformattedHelp
from understudy.cli.interruptions import interruptible
from understudy.clusters.answers import APPLY, IGNORE
from understudy.clusters.cluster import ClusterError
from understudy.clusters.containers.compose_project import ComposeProject, Service
from understudy.clusters.control.bodies import body_of, decode
from understudy.clusters.control.client import ControlClient, ControlRefused
from understudy.clusters.control.compose import ComposeVerbs
from understudy.clusters.control.control_file import NoControlPort
from understudy.clusters.control.verbs import VerbRequest, checked
from understudy.clusters.problems import BadValue
from understudy.clusters.processes.cluster_view import NO_ANSWER
from understudy.clusters.values import parse_duration
from understudy.clusters.verb_table import ANSWER, ARM, POINT_ACTIONS, TARGETS, VERBS

_POLL_S: Final = 0.1
_TARGETS = "\n".join(f"  {form:<18} {meaning}" for form, meaning in TARGETS.items())


def add_arguments(parser: argparse.ArgumentParser) -> None:
    name = parser.prog.rpartition(" ")[2]
    verb = VERBS[name]
    parser.description = f"On a running cluster: {verb.meaning}."
    parser.epilog = f"targets:\n{_TARGETS}\n\nIt is on record in the event log of the run before it is done."
    parser.formatter_class = PreformattedHelp
    parser.add_argument("folder", type=Path, metavar="RUN", help="the run folder that `understudy up` named")
    parser.add_argument("target", metavar="TARGET", help="a broker's id or a role, see below")
    if name == ARM:
        parser.add_argument(
            "point", metavar="POINT", help="a named point of the controller, for example partition.after_write"
        )
        parser.add_argument("--action", choices=POINT_ACTIONS, required=True, help="what happens at the point")
    if name == ANSWER:
        _add_answer_arguments(parser)
    if verb.undo:
        parser.add_argument(
            "--for", dest="lasts", metavar="DURATION", help=f"{verb.undo} after this time, for example 5s"
        )
    if verb.on_compose:
        parser.add_argument(
            "--compose", action="store_true", help=f"RUN is the folder of a compose project ({verb.on_compose})"
        )
    parser.set_defaults(compose=False)


def _add_answer_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--api", required=True, metavar="NAME", help="Kafka's name of the request, for example Produce")
    add("--error", metavar="NAME", help="Kafka's name of the error, for example NOT_LEADER_OR_FOLLOWER")
    add("--times", type=int, default=1, metavar="N", help="how many requests are answered so")
    add("--topic", metavar="NAME", help="the topic that the error is for (default all of a request)")
    add("--partition", type=int, metavar="N", help="the partition of this topic (default all of a request)")
    add("--client", metavar="ID", help="the client id of the requests (default any client's)")
    add("--and", dest="then", choices=(APPLY, IGNORE), help="whether the request is handled as well (default ignore)")
    add("--throttle-ms", type=int, metavar="N", help="the throttle time in the answers; enough without --error")
    add("--wait", metavar="DURATION", help="wait until the answers were given; fail after this time, for example 30s")


def run(options: argparse.Namespace) -> int:
    body = _body(options)
    with reported_as(BadInput, BadValue):
        request = checked(options.verb, decode(json.dumps(body).encode(), body_of(options.verb)))
    if options.compose:
        return _on_compose(options.folder, request)
    wait = getattr(options, "wait", None)
    with reported_as(BadInput, BadValue):
        if wait is not None:
            parse_duration(wait)
    return _on_processes(options.folder, options.verb, body, wait)


def _body(options: argparse.Namespace) -> dict[str, Any]:
    """The body of the request, as the control port expects it."""
    keys = {"target": "target", "lasts": "for", "point": "point", "action": "action"}
    if options.verb == ANSWER:
        keys |= {name: name for name in ("api", "error", "times", "topic", "partition", "client", "throttle_ms")}
        keys["then"] = "and"
    given = {key: getattr(options, name, None) for name, key in keys.items()}
    return {key: value for key, value in given.items() if value is not None}


@reported_as(Failed, NoControlPort)
def _on_processes(folder: Path, verb: str, body: dict[str, Any], wait: str | None) -> int:
    client = ControlClient.of_run(folder)
    try:
        done = client.verb(verb, body)
        print(done["message"], flush=True)
        if wait is not None:
            _await_answer(client, done["answer"], parse_duration(wait), wait)
    except ControlRefused as refused:
        raise (BadInput if refused.is_wrong_request else Failed)(str(refused)) from None
    return 0


def _await_answer(client: ControlClient, name: str, limit_ms: float, limit: str) -> None:
    """Wait until an armed answer was given as often as it is armed for. Raises Failed."""
    deadline_s = time.monotonic() + limit_ms / 1000
    while True:
        answer = next(each for each in client.get("/answers")["answers"] if each["id"] == name)
        if answer["hits"] >= answer["times"]:
            return
        if time.monotonic() > deadline_s:
            raise Failed(f"{name} was given {answer['hits']} of {answer['times']} times within {limit}")
        time.sleep(_POLL_S)


@reported_as(Failed, ClusterError, OSError, *NO_ANSWER)
def _on_compose(folder: Path, request: VerbRequest) -> int:
    """Do a verb on containers. This command itself waits for the duration, and undoes the verb also after Ctrl-C."""
    with interruptible() as interruption:
        verbs = ComposeVerbs(ComposeProject.of_folder(folder))
        done: list[Service] = []
        try:
            print(verbs.do(request, done.append), flush=True)
            if request.lasts_ms is not None:
                interruption.wait(request.lasts_ms / 1000)
        finally:
            if request.lasts_ms is not None and done:
                print(verbs.undo(VERBS[request.verb].undo, done), flush=True)
    return 0
