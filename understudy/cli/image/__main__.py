"""`python -m understudy.cli.image [kafka|zookeeper] [FILE] [--override KEY=VALUE …]`: run what the variables describe.

FILE is a `server.properties` or a `zookeeper.properties`, as for Kafka's `kafka-server-start.sh` and
`zookeeper-server-start.sh`.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from understudy.brokers.config.config_def import ConfigError
from understudy.brokers.config.properties import MalformedProperties, parse_properties
from understudy.cli.arguments import Failed, property_assignment
from understudy.cli.image.container import FAILED, Container, is_local, with_commands
from understudy.cli.image.plan import Plan, plan_of
from understudy.cli.image.zookeeper_variables import (
    CONFLUENT_DATA_DIR,
    ZooKeeperVariables,
    read_zookeeper_variables,
    zookeeper_properties,
)
from understudy.clusters.java import JavaNotFound
from understudy.clusters.processes.processes import ProcessDied
from understudy.clusters.processes.zookeeper_server import ZooKeeperNotStarted

FOLDER_VARIABLE: Final = "UNDERSTUDY_IMAGE_DIR"
_FOLDER: Final = "/run/understudy"
_MOUNTED: Final = Path("/mnt/shared/config/server.properties")
"""The file that apache/kafka's image reads if it is mounted."""
_KAFKA: Final = "kafka"
_ZOOKEEPER: Final = "zookeeper"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the container, and return its exit code: 1 if a variable or file cannot be used, or a server cannot start."""
    options = _parser().parse_args(arguments)
    folder = Path(os.environ.get(FOLDER_VARIABLE, _FOLDER))
    try:
        plan = _plan(options.server, options.file, dict(options.override))
        folder.mkdir(parents=True, exist_ok=True)
        return Container(plan, folder, os.environ).run()
    except (
        ConfigError,
        Failed,
        JavaNotFound,
        MalformedProperties,
        OSError,
        ProcessDied,
        ZooKeeperNotStarted,
    ) as error:
        print(f"understudy: {error}", file=sys.stderr, flush=True)
        return FAILED


def check() -> int:
    """Check the environment without starting anything; return 1, after a message, if it cannot be used."""
    try:
        _plan(_KAFKA, None, {})
    except (ConfigError, MalformedProperties, OSError) as error:
        print(f"understudy: {error}", file=sys.stderr, flush=True)
        return FAILED
    return 0


def _plan(server: str, file: Path | None, overrides: Mapping[str, str]) -> Plan:
    environment = with_commands(os.environ)
    if server == _ZOOKEEPER:
        return Plan(zookeeper=read_zookeeper_variables(environment) if file is None else _zookeeper_file(file))
    if file is None and _MOUNTED.is_file():
        file = _MOUNTED
    properties = None if file is None else parse_properties(file.read_text(encoding="utf-8"))
    return plan_of(environment, is_local=is_local, file=properties, overrides=overrides)


def _zookeeper_file(file: Path) -> ZooKeeperVariables:
    properties = parse_properties(file.read_text(encoding="latin-1"))
    my_id = Path(properties.get("dataDir", CONFLUENT_DATA_DIR)) / "myid"
    return zookeeper_properties(properties, my_id.read_text().strip() if my_id.is_file() else None)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="understudy-image", description=__doc__)
    parser.add_argument("server", nargs="?", choices=(_KAFKA, _ZOOKEEPER), default=_KAFKA, help="default kafka")
    parser.add_argument("file", nargs="?", type=Path, help="server.properties or zookeeper.properties")
    parser.add_argument("-daemon", action="store_true", help="has no effect: the container's process is the server")
    parser.add_argument(
        "--override", type=property_assignment, action="append", default=[], metavar="KEY=VALUE", help="set a property"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
