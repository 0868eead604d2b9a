"""`understudy health`: send a broker or a ZooKeeper server one request; the exit code is 0 if it answers.

Containers use it as their health check.
"""

from __future__ import annotations

import argparse
import asyncio

from understudy.brokers.machine.socket_network import SocketNetwork
from understudy.cli.arguments import Failed, host_and_port, reported_as
from understudy.clusters.clients.admin_client import AdminClient
from understudy.clusters.processes.embedded_zookeeper import four_letter_word
from understudy.foundation.cluster.errors import Errors, error_name
from understudy.foundation.wire.errors import MalformedMessage
from understudy.foundation.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from understudy.foundation.wire.network import ConnectionFailed, ConnectionLost
from understudy.foundation.wire.request_channel import RequestTimedOut

TIMEOUT_MS = 5_000
HEALTH_FILE_VARIABLE = "UNDERSTUDY_HEALTH_FILE"
"""Variable that names the file which exists while the server of a container answers, for the container's health check.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("address", type=host_and_port, metavar="HOST:PORT", help="a broker's listener")
    parser.add_argument("--zookeeper", action="store_true", help="HOST:PORT is a ZooKeeper server; send it `srvr`")


def run(options: argparse.Namespace) -> int:
    host, port = options.address
    print(_ask_zookeeper(host, port) if options.zookeeper else ask_broker(host, port))
    return 0


@reported_as(Failed, ConnectionFailed, ConnectionLost, RequestTimedOut, MalformedMessage)
def ask_broker(host: str, port: int) -> str:
    client = AdminClient(SocketNetwork(), (), client_id="understudy-health", timeout_ms=TIMEOUT_MS)
    # Every broker, however old, answers version 0.
    response = asyncio.run(client.ask(host, port, ApiVersionsRequest(), version=0))
    assert isinstance(response, ApiVersionsResponse)
    if response.error_code != Errors.NONE:
        raise Failed(f"{host}:{port} answers ApiVersions with {error_name(response.error_code)}")
    return f"{host}:{port} answers; it supports {len(response.api_keys)} APIs"


def _ask_zookeeper(host: str, port: int) -> str:
    answer = four_letter_word(host, port, "srvr", TIMEOUT_MS / 1000)
    mode = next((line for line in answer.splitlines() if line.startswith("Mode:")), None)
    if mode is None:
        raise Failed(
            f"no ZooKeeper serves at {host}:{port}" + (f"; the answer was: {answer.strip()}" if answer else "")
        )
    return f"{host}:{port} serves. {mode}"
