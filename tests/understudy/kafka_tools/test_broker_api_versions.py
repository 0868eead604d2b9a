"""`understudy api-versions` and `cluster` with a scripted broker."""

from __future__ import annotations

import asyncio
import io

import pytest

from tests.brokers.parts import StillClock
from tests.brokers.peers import ScriptedPeer
from understudy.foundation.wire.headers import RequestHeader
from understudy.foundation.wire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from understudy.foundation.wire.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseBroker
from understudy.foundation.wire.registry import APIS
from understudy.foundation.wire.schema import Message
from understudy.kafka_tools.api_keys import API_KEYS
from understudy.kafka_tools.broker_api_versions import api_list
from understudy.kafka_tools.cluster_tool import UNREGISTER_BROKER
from understudy.kafka_tools.console import Console, Surroundings
from understudy.kafka_tools.tools import TOOLS


class Peer(ScriptedPeer):
    """Two brokers, of which the second may be down."""

    def __init__(self, *, cluster_id: str | None = "n6qMlyB5SbCcvEbmY029EA", is_kraft: bool = False) -> None:
        super().__init__(self._respond)
        self._cluster_id = cluster_id
        self._is_kraft = is_kraft

    def _respond(self, _: RequestHeader, request: Message) -> Message:
        match request:
            case ApiVersionsRequest():
                served = [ApiVersion(api_key=api.key, max_version=api.max_version) for api in APIS]
                more = [ApiVersion(api_key=UNREGISTER_BROKER)] if self._is_kraft else []
                return ApiVersionsResponse(api_keys=(*served, *more))
            case MetadataRequest():
                brokers = (
                    MetadataResponseBroker(node_id=2, host="h2", port=9092, rack="r"),
                    MetadataResponseBroker(node_id=1, host="h1", port=9092),
                )
                return MetadataResponse(brokers=brokers, cluster_id=self._cluster_id, controller_id=1)
        raise AssertionError(f"not expected: {request}")


def run(tool: str, peer: Peer, *words: str) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    surroundings = Surroundings(Console(out, err, lambda: "[now]"), peer, StillClock(), "1")
    return asyncio.run(TOOLS[tool].main(words, surroundings)), out.getvalue(), err.getvalue()


def test_each_broker_is_listed_with_its_apis_in_order_of_its_id() -> None:
    code, out, err = run("api-versions", Peer(), "--bootstrap-server", "h1:9092")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    heads = [line for line in lines if not line.startswith("\t")]
    assert heads == ["h1:9092 (id: 1 rack: null) -> (", ")", "h2:9092 (id: 2 rack: r) -> (", ")"]
    assert lines[1] == "\tProduce(0): 0 to 11 [usable: 11],"


def test_a_broker_that_does_not_answer_is_listed_with_its_error() -> None:
    peer = Peer()
    peer.refusing.add("h2:9092")
    code, out, _ = run("api-versions", peer, "--bootstrap-server", "h1:9092")
    assert code == 0
    assert out.endswith("h2:9092 (id: 2 rack: r) -> ERROR: org.apache.kafka.common.errors.DisconnectException\n")


def test_versions_that_a_client_cannot_use_are_named() -> None:
    listed = api_list({0: (0, 99), 1: (50, 60), 18: (2, 2), 200: (1, 3), 52: (0, 1)}).split(",\n\t")
    assert listed[0] == "Produce(0): 0 to 99 [usable: 11]"
    assert listed[1] == "Fetch(1): 50 to 60 [unusable: node too new]"
    assert "ListOffsets(2): UNSUPPORTED" in listed
    assert "ApiVersions(18): 2 [usable: 2]" in listed
    assert "Vote(52): 0 to 1 [usable: 1]" in listed
    assert listed[-1] == "UNKNOWN(200): 1 to 3"
    # A controller's API is listed only if it is served.
    assert not [line for line in listed if line.startswith("FetchSnapshot")]


def test_the_names_and_versions_are_those_of_the_messages() -> None:
    for api in APIS:
        assert (API_KEYS[api.key].name, API_KEYS[api.key].newest) == (api.name, api.max_version)


def test_the_cluster_tool_prints_the_id_of_the_cluster() -> None:
    assert run("cluster", Peer(), "cluster-id", "-b", "h1:9092") == (0, "Cluster ID: n6qMlyB5SbCcvEbmY029EA\n", "")
    too_old = "No cluster ID found. The Kafka version is probably too old.\n"
    assert run("cluster", Peer(cluster_id=None), "cluster-id", "--bootstrap-server=h1:9092") == (0, too_old, "")


@pytest.mark.parametrize("is_kraft", [False, True])
def test_a_broker_is_not_unregistered_in_zookeeper_mode(is_kraft: bool) -> None:
    code, out, err = run("cluster", Peer(is_kraft=is_kraft), "unregister", "-b", "h1:9092", "--id", "1")
    if is_kraft:
        assert code == 1
        assert "the cluster is in KRaft mode, in which this tool unregisters no broker" in err
    else:
        assert (code, out) == (0, "The target cluster does not support the broker unregistration API.\n")
