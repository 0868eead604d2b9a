"""Tests of a broker's connection to the controller over the simulated network, also without responses."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from understudy.brokers.membership.controller_channel import ControllerChannel
from understudy.clusters.simulated.loop import Process, SimulatedLoop, new_loop
from understudy.clusters.simulated.network import SimulatedNetwork
from understudy.foundation.wire.framing import FrameReader
from understudy.foundation.wire.headers import decode_request, encode_response
from understudy.foundation.wire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from understudy.foundation.wire.messages.metadata import MetadataRequest, MetadataResponse
from understudy.foundation.wire.messages.update_metadata import UpdateMetadataEndpoint
from understudy.foundation.wire.network import Connection
from understudy.foundation.wire.registry import api_by_key

TIMEOUT_MS = 3_000
ADDRESS = UpdateMetadataEndpoint(host="controller", port=9092, listener="PLAINTEXT", security_protocol=0)
METADATA = ApiVersion(api_key=3, min_version=0, max_version=12)


class Controller:
    """A controller that responds to ApiVersions and Metadata, but not after `silent_after` requests."""

    def __init__(self, *, silent_after: int = 1_000, offers: tuple[ApiVersion, ...] = (METADATA,)) -> None:
        self._silent_after = silent_after
        self._offers = offers
        self.received: list[str] = []
        self.connections = 0
        self.closed = 0

    async def serve(self, connection: Connection) -> None:
        self.connections += 1
        frames = FrameReader()
        while data := await connection.receive():
            for frame in frames.feed(data):
                header, request = decode_request(frame)
                api = api_by_key(header.api_key)
                assert api is not None
                self.received.append(api.name)
                if len(self.received) > self._silent_after:
                    continue
                is_handshake = isinstance(request, ApiVersionsRequest)
                response = ApiVersionsResponse(api_keys=self._offers) if is_handshake else MetadataResponse()
                await connection.send(encode_response(api, header.api_version, header.correlation_id, response))
        self.closed += 1


class ChannelHarness:
    """A broker with a channel to `controller`; each is a node of its own in the simulated network."""

    def __init__(self, controller: Controller) -> None:
        self.controller = controller
        self.loop: SimulatedLoop = new_loop()
        self.network = SimulatedNetwork(self.loop, seed=1)
        self.broker, there = Process(self.loop, "broker", 1, 1), Process(self.loop, "controller", 1, 2)
        self.is_known = True
        self.channel = ControllerChannel(
            client_id="7",
            network=self.network.node(self.broker),
            controller=lambda: ADDRESS if self.is_known else None,
            timeout_ms=TIMEOUT_MS,
        )

        async def listen() -> None:
            (await self.network.node(there).bind("controller", 9092, controller.serve)).start()

        there.spawn(listen())
        self.loop.run_for(0.1)

    def request(self, version: int = 12) -> asyncio.Task[MetadataResponse | None]:
        return self.broker.spawn(self.channel.request(MetadataRequest(topics=()), version, MetadataResponse))

    def run(self, scenario: Callable[[], Awaitable[None]]) -> None:
        async def run_to_end() -> None:
            await scenario()

        self.loop.run_until_complete(self.broker.spawn(run_to_end()))
        self.loop.run_for(1)
        assert self.loop.failures == []
        self.loop.close()


@pytest.mark.spec("IS-5")
def test_connection_is_kept_and_sends_api_versions_once() -> None:
    harness = ChannelHarness(Controller())

    async def scenario() -> None:
        assert [await harness.request() for _ in range(3)] == [MetadataResponse()] * 3

    harness.run(scenario)
    assert harness.controller.received == ["ApiVersions", "Metadata", "Metadata", "Metadata"]
    assert harness.controller.connections == 1


@pytest.mark.spec("IS-5")
@pytest.mark.parametrize("answered", [0, 1], ids=["to ApiVersions", "to the request"])
def test_closing_ends_a_request_that_a_silent_controller_does_not_answer(answered: int) -> None:
    """Closing does not wait for the timeout. Mirrors `ServerShutdownTest.testControllerShutdownDuringSend`."""
    harness = ChannelHarness(Controller(silent_after=answered))

    async def scenario() -> None:
        request = harness.request()
        await asyncio.sleep(TIMEOUT_MS / 2000)
        assert not request.done()
        closed_at = harness.loop.time()
        harness.channel.forget_controller()
        assert await request is None
        assert harness.loop.time() == closed_at
        harness.channel.forget_controller()

    harness.run(scenario)
    assert harness.controller.received == ["ApiVersions", "Metadata"][: answered + 1]
    assert (harness.controller.connections, harness.controller.closed) == (1, 1)


@pytest.mark.spec("IS-5")
@pytest.mark.parametrize("answered", [0, 1], ids=["to ApiVersions", "to the request"])
def test_request_to_a_silent_controller_times_out_and_the_controller_is_looked_up_again(answered: int) -> None:
    harness = ChannelHarness(Controller(silent_after=answered))

    async def scenario() -> None:
        assert await harness.request() is None
        assert TIMEOUT_MS / 1000 <= harness.loop.time() < TIMEOUT_MS / 1000 + 1
        harness.is_known = False
        request = harness.request()
        await asyncio.sleep(60)
        assert not request.done(), "it waits for a controller to be known"
        request.cancel()

    harness.run(scenario)
    assert (harness.controller.connections, harness.controller.closed) == (1, 1)


@pytest.mark.spec("IS-5")
def test_a_request_that_is_cancelled_while_it_connects_leaves_no_connection() -> None:
    harness = ChannelHarness(Controller())
    harness.network.partition(["broker"], ["controller"])

    async def scenario() -> None:
        request = harness.request()
        await asyncio.sleep(1)
        harness.channel.forget_controller()
        request.cancel()
        await asyncio.wait([request])
        assert request.cancelled()
        harness.network.heal()
        await asyncio.sleep(10)

    harness.run(scenario)
    assert (harness.controller.connections, harness.controller.closed) == (1, 1), "it arrives late, and is closed"


@pytest.mark.spec("IS-5", "AP-1")
@pytest.mark.parametrize("offered", [(), (ApiVersion(api_key=3, min_version=0, max_version=11),)])
def test_a_request_that_the_controller_does_not_serve_is_not_sent(offered: tuple[ApiVersion, ...]) -> None:
    harness = ChannelHarness(Controller(offers=offered))

    async def scenario() -> None:
        assert await harness.request(version=12) is None

    harness.run(scenario)
    assert harness.controller.received == ["ApiVersions"]
    assert harness.controller.closed == 1
