"""`understudy watch`: serve the page of a run, live or afterwards, until Ctrl-C."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from understudy.cli.arguments import BadInput, Failed, Verbs, host_and_any_port, os_error
from understudy.cli.interruptions import interruptible

_LOOK_EVERY_S = 0.5


def register(verbs: Verbs) -> None:
    parser = verbs.add_parser(
        "watch", help="show a run in a browser, live or afterwards, at any moment", description=__doc__
    )
    parser.add_argument(
        "paths",
        nargs="+",
        type=Path,
        metavar="RUN",
        help="a run folder, of a cluster that runs now or has ended; or folders or files of event logs",
    )
    parser.add_argument("--run-id", metavar="ID", help="the run to show, where the logs have several")
    parser.add_argument(
        "--port",
        type=host_and_any_port,
        metavar="HOST:PORT",
        help="the address to serve the page on (default: any free port of 127.0.0.1). On another address than loopback "
        "the page only shows: it takes no commands",
    )
    parser.add_argument("--open", action="store_true", help="open the page in the default browser")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    from understudy.cluster import ClusterError
    from understudy.control.http_thread import ANY_PORT
    from understudy.page.runs import NoSuchRun
    from understudy.page.server import PageServer, open_run

    try:
        with interruptible() as interruption:
            shown, folder, has_ended = open_run(options.paths, options.run_id)
            with PageServer(shown, options.port or ANY_PORT, folder=folder, has_ended=has_ended) as server:
                _introduce(server.url, is_live=not has_ended(), with_commands="#" in server.url)
                if options.open:
                    _open_browser(server.url)
                while server.is_running and not interruption.wait(_LOOK_EVERY_S):
                    pass
    except NoSuchRun as error:
        raise BadInput(str(error)) from None
    except ClusterError as error:
        raise Failed(str(error)) from None
    except OSError as error:
        raise Failed(os_error(error)) from None
    return 0


def _introduce(url: str, *, is_live: bool, with_commands: bool) -> None:
    if is_live:
        print("following the run while it goes on")
    print(f"page  {url}")
    if with_commands:
        print("Its token lets the page send commands to the cluster; keep the address to yourself.")
    print("Open it in a browser. Ctrl-C ends.", flush=True)


def _open_browser(url: str) -> None:
    import webbrowser

    if not webbrowser.open(url):
        print("no browser was found; open the address above in one", file=sys.stderr)
