"""`understudy watch`: serve the page of a run, live or afterwards, until Ctrl-C."""

from __future__ import annotations

import argparse
import contextlib
import sys
import webbrowser
from functools import partial
from pathlib import Path

from understudy.cli.arguments import BadInput, Failed, host_and_any_port, reported_as
from understudy.cli.interruptions import interruptible
from understudy.cli.served_page import introduce, wait_for_end
from understudy.clusters.cluster import ClusterError
from understudy.clusters.containers.compose_project import ComposeProject
from understudy.clusters.control.compose_server import ComposeControl
from understudy.clusters.control.http_thread import ANY_PORT
from understudy.page.recorded.runs import NoSuchRun
from understudy.page.served.app import application
from understudy.page.served.compose import compose_run
from understudy.page.served.control import of_compose
from understudy.page.served.server import PageServer, open_run

_LOOK_AT_CONTAINERS_EVERY_S = 2.0
"""Seconds between two looks, each a command of docker that takes some hundredths of a second of a processor."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "paths",
        nargs="+",
        type=Path,
        metavar="RUN",
        help="a run folder, of a cluster that runs now or has ended; or folders or files of event logs",
    )
    parser.add_argument("--run-id", metavar="ID", help="the run to show, if the logs have several")
    parser.add_argument(
        "--compose",
        action="store_true",
        help="RUN is the folder of a compose project, which is followed while one of its containers runs",
    )
    parser.add_argument(
        "--port",
        type=host_and_any_port,
        metavar="HOST:PORT",
        help="the address to serve the page on (default any free port of 127.0.0.1). On another address than loopback "
        "the page only shows: it takes no commands",
    )
    parser.add_argument("--open", action="store_true", help="open the page in the default browser")


@reported_as(BadInput, NoSuchRun)
@reported_as(Failed, ClusterError, OSError)
def run(options: argparse.Namespace) -> int:
    if options.compose and len(options.paths) > 1:
        raise BadInput("--compose takes one RUN: the folder of the compose file")
    with interruptible() as interruption, contextlib.ExitStack() as stack:
        server = stack.enter_context(_of_compose(options, stack) if options.compose else _of_paths(options))
        if server.is_following:
            print("following the run until it ends")
        introduce(server)
        if options.open and not webbrowser.open(server.url):
            print("no browser was found; open the address above in one", file=sys.stderr)
        wait_for_end(server, interruption)
    return 0


def _of_paths(options: argparse.Namespace) -> PageServer:
    shown, folder, has_ended = open_run(options.paths, options.run_id)
    return PageServer(shown, options.port or ANY_PORT, folder=folder, has_ended=has_ended)


def _of_compose(options: argparse.Namespace, stack: contextlib.ExitStack) -> PageServer:
    """Return the server of a compose project. The control port that takes its commands ends with the stack."""
    project = ComposeProject.of_folder(options.paths[0])
    shown, folder, has_ended = compose_run(project, options.run_id)
    control = None
    if shown.is_live and not has_ended():
        try:
            control = stack.enter_context(ComposeControl(project, shown.name, partial(print, flush=True)))
        except ClusterError as error:
            print(f"the page takes no commands: {error}", file=sys.stderr)
    return PageServer(
        shown,
        options.port or ANY_PORT,
        folder=folder,
        has_ended=has_ended,
        look_every_s=_LOOK_AT_CONTAINERS_EVERY_S,
        make_application=partial(application, control=of_compose(control.client) if control is not None else None),
    )
