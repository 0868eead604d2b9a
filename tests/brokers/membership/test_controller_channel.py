"""A broker's connection to the controller, over the simulated network: requests without a response end, too."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from brokers.membership.controller_channel import ControllerChannel
from foundation.wire.framing import FrameReader
from foundation.wire.headers import decode_request, encode_response
from foundation.wire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from foundation.wire.messages.metadata import MetadataRequest, MetadataResponse
from foundation.wire.messages.update_metadata import UpdateMetadataEndpoint
from foundation.wire.network import Connection
from foundation.wire.registry import api_by_key
from understudy.simulator.loop import Process, SimulatedLoop, new_loop
from understudy.simulator.network import SimulatedNetwork

TIMEOUT_MS = 3_000
ADDRESS = UpdateMetadataEndpoint(host="controller", port=9092, listener="PLAINTEXT", security_protocol=0)
METADATA = ApiVersion(api_key=3, min_version=0, max_version=12)


class Controller:
    """Answers ApiVersions and Metadata; not any more after `silent_after` requests."""

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


class Stage:
    """A broker with a channel to `controller`, each on a machine of its own."""

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

    def run(self, story: Callable[[], Awaitable[None]]) -> None:
        async def play() -> None:
            await story()

        self.loop.run_until_complete(self.broker.spawn(play()))
        self.loop.run_for(1)
        assert self.loop.failures == []
        self.loop.close()


@pytest.mark.spec("IS-5")
def test_a_connection_is_kept_and_introduces_itself_once() -> None:
    stage = Stage(Controller())

    async def story() -> None:
        assert [await stage.request() for _ in range(3)] == [MetadataResponse()] * 3

    stage.run(story)
    assert stage.controller.received == ["ApiVersions", "Metadata", "Metadata", "Metadata"]
    assert stage.controller.connections == 1


@pytest.mark.spec("IS-5")
@pytest.mark.parametrize("answered", [0, 1], ids=["to ApiVersions", "to the request"])
def test_closing_ends_a_request_that_a_silent_controller_does_not_answer(answered: int) -> None:
    """As in Kafka's `ServerShutdownTest.testControllerShutdownDuringSend`: without waiting for the timeout."""
    stage = Stage(Controller(silent_after=answered))

    async def story() -> None:
        request = stage.request()
        await asyncio.sleep(TIMEOUT_MS / 2000)
        assert not request.done()
        closed_at = stage.loop.time()
        stage.channel.forget_controller()
        assert await request is None
        assert stage.loop.time() == closed_at
        stage.channel.forget_controller()

    stage.run(story)
    assert stage.controller.received == ["ApiVersions", "Metadata"][: answered + 1]
    assert (stage.controller.connections, stage.controller.closed) == (1, 1)


@pytest.mark.spec("IS-5")
@pytest.mark.parametrize("answered", [0, 1], ids=["to ApiVersions", "to the request"])
def test_a_silent_controller_is_given_up_after_the_timeout_and_looked_up_again(answered: int) -> None:
    stage = Stage(Controller(silent_after=answered))

    async def story() -> None:
        assert await stage.request() is None
        assert TIMEOUT_MS / 1000 <= stage.loop.time() < TIMEOUT_MS / 1000 + 1
        stage.is_known = False
        request = stage.request()
        await asyncio.sleep(60)
        assert not request.done(), "it waits for a controller to be known"
        request.cancel()

    stage.run(story)
    assert (stage.controller.connections, stage.controller.closed) == (1, 1)


@pytest.mark.spec("IS-5")
def test_a_request_that_is_cancelled_while_it_connects_leaves_no_connection() -> None:
    stage = Stage(Controller())
    stage.network.partition(["broker"], ["controller"])

    async def story() -> None:
        request = stage.request()
        await asyncio.sleep(1)
        stage.channel.forget_controller()
        request.cancel()
        await asyncio.wait([request])
        assert request.cancelled()
        stage.network.heal()
        await asyncio.sleep(10)

    stage.run(story)
    assert (stage.controller.connections, stage.controller.closed) == (1, 1), "it arrives late, and is closed"


@pytest.mark.spec("IS-5", "AP-1")
@pytest.mark.parametrize("offered", [(), (ApiVersion(api_key=3, min_version=0, max_version=11),)])
def test_a_request_that_the_controller_does_not_serve_is_not_sent(offered: tuple[ApiVersion, ...]) -> None:
    stage = Stage(Controller(offers=offered))

    async def story() -> None:
        assert await stage.request(version=12) is None

    stage.run(story)
    assert stage.controller.received == ["ApiVersions"]
    assert stage.controller.closed == 1
