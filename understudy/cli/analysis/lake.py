"""Does the work of `understudy lake`: lists the versions of a lake, restores one, deletes the files of old ones."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime
from itertools import islice

from understudy.cli.arguments import BadInput, Failed, reported_as
from understudy.history.lake.errors import LakeError, LaterLake, NotALake
from understudy.history.lake.runs_table import Runs
from understudy.history.lake.writer import LakeWriter, restore


@reported_as(Failed, LakeError)
@reported_as(BadInput, NotALake, LaterLake)
def act(options: argparse.Namespace) -> None:
    """Carry out the action. Raises BadInput, Failed."""
    about, hint = f"the lake {options.lake} cannot be changed:", "; run the command again when it can be"
    with reported_as(Failed, OSError, about=about, hint=hint):
        match options.action:
            case "history":
                for version, at_ms, change in islice(Runs(options.lake).changes(), options.limit):
                    at = datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
                    print(f"{version:>7}  {at} UTC  {change}")
            case "restore":
                version = restore(options.lake, options.version)
                print(f"{options.lake} has the runs of version {options.version} again, as version {version}")
            case "vacuum":
                Runs(options.lake)  # a writer would make a new lake
                deleted = LakeWriter(options.lake).vacuum(options.keep)
                print(f"{deleted} files deleted")
