"""`understudy api-versions`: the APIs of each broker. Mirrors `BrokerApiVersionsCommand` and `NodeApiVersions`.

Kafka prints the brokers in a random order, this tool in order of their ids. No request is sent a second time, so that
a health check ends at once if the broker cannot be reached.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from understudy.clusters.clients.connections import NO_ANSWER, NOT_SENT, metadata_request
from understudy.foundation.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from understudy.foundation.wire.messages.metadata import MetadataResponse, MetadataResponseBroker
from understudy.kafka_tools.api_keys import API_KEYS
from understudy.kafka_tools.cluster import KafkaCluster
from understudy.kafka_tools.console import Console, Surroundings, Tool, addresses, print_uncaught
from understudy.kafka_tools.errors import API, RUNTIME, ToolError
from understudy.kafka_tools.options import BOOTSTRAP_SERVER, COMMAND_CONFIG, Options

CLIENT_ID = "admin-1"
REQUEST_TIMEOUT_MS = 5_000
LOGGER = "org.apache.kafka.clients.NetworkClient"

FLAGS = (BOOTSTRAP_SERVER, COMMAND_CONFIG)


async def run(options: Options, surroundings: Surroundings) -> int:
    """Run one command line of the tool, and return its exit code."""
    options.require("bootstrap-server")
    console = surroundings.console
    bootstrap = addresses(options.value("bootstrap-server") or "")
    async with surroundings.connect(options, request_timeout_ms=REQUEST_TIMEOUT_MS) as cluster:
        for broker in await _brokers(cluster, bootstrap, console):
            shown = f"{broker.host}:{broker.port} (id: {broker.node_id} rack: {broker.rack or 'null'})"
            try:
                served = await cluster.ask(broker.host, broker.port, ApiVersionsRequest(), version=0)
            except (*NOT_SENT, *NO_ANSWER):
                console.print(f"{shown} -> ERROR: {API}DisconnectException")
            else:
                assert isinstance(served, ApiVersionsResponse)
                versions = {api.api_key: (api.min_version, api.max_version) for api in served.api_keys}
                console.print(f"{shown} -> (\n\t{api_list(versions)}\n)")
    return 0


TOOL = Tool(
    "api-versions",
    "This tool helps to retrieve broker version information.",
    FLAGS,
    run,
    print_uncaught,
)


def api_list(versions: Mapping[int, tuple[int, int]]) -> str:
    """Return the APIs that a broker serves, and the others that brokers may serve, one on a line.

    Args:
        versions: the oldest and the newest version that it serves, by the key of the API.
    """
    unsupported = (key for key, api in API_KEYS.items() if api.is_of_brokers and key not in versions)
    return ",\n\t".join(_shown(key, versions.get(key)) for key in sorted({*versions, *unsupported}))


def _shown(key: int, versions: tuple[int, int] | None) -> str:
    api = API_KEYS.get(key)
    name = f"{'UNKNOWN' if api is None else api.name}({key})"
    if versions is None:
        return f"{name}: UNSUPPORTED"
    oldest, newest = versions
    served = f"{name}: {oldest}" if oldest == newest else f"{name}: {oldest} to {newest}"
    if api is None:
        return served
    if api.newest < oldest:
        return f"{served} [unusable: node too new]"
    if newest < 0:
        return f"{served} [unusable: node too old]"
    return f"{served} [usable: {min(api.newest, newest)}]"


async def _brokers(cluster: KafkaCluster, bootstrap: Sequence[str], console: Console) -> list[MetadataResponseBroker]:
    """Return the brokers in order of their ids, from the first bootstrap server that answers.

    Raises:
        ToolError: none answers.
    """
    tried = []
    for number, address in enumerate(bootstrap, start=1):
        tried.append(f"{address} (id: -{number} rack: null)")
        try:
            host, _, port = address.rpartition(":")
            answer = await cluster.ask(host.strip("[]"), int(port), metadata_request(None))
        except (*NOT_SENT, *NO_ANSWER):
            prefix = f"[LegacyAdminClient clientId={CLIENT_ID}]"
            console.log(
                "WARN",
                f"{prefix} Connection to node -{number} ({address}) could not be established. "
                "Node may not be available.",
                LOGGER,
            )
            console.log("WARN", f"{prefix} Bootstrap broker {tried[-1]} disconnected", LOGGER)
        else:
            assert isinstance(answer, MetadataResponse)
            return sorted(answer.brokers, key=lambda broker: broker.node_id)
    raise ToolError(RUNTIME, f"Request METADATA failed on brokers List({', '.join(tried)})")
