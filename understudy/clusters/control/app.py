"""The HTTP application of the control port: verbs, topics, elections and records on one running cluster."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any, Final

import msgspec
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from understudy.brokers.machine.real_world import MachineClock
from understudy.brokers.machine.socket_network import SocketNetwork
from understudy.clusters.answers import AnswerHandle
from understudy.clusters.clients.admin_client import AdminClient
from understudy.clusters.clients.cluster_requests import NoBrokerAnswers
from understudy.clusters.clients.connections import Connections
from understudy.clusters.clients.producer import ALL_ACKS, DeliveryOutcome, Producer
from understudy.clusters.clients.topic_requests import PREFERRED, UNCLEAN
from understudy.clusters.cluster import ClusterError
from understudy.clusters.control.api_description import docs_page, openapi
from understudy.clusters.control.bodies import B, Election, NewTopic, Records, body_of, decode
from understudy.clusters.control.guard import Guard, http_error, read_body, refused
from understudy.clusters.control.verbs import Commanded, checked
from understudy.clusters.problems import BadValue
from understudy.clusters.processes.cluster_view import NO_ANSWER, ClusterView
from understudy.clusters.processes.run_folder import NotARunFolder
from understudy.clusters.processes.zookeeper_server import ZooKeeperNotStarted
from understudy.clusters.software import software_version
from understudy.clusters.values import parse_partition
from understudy.clusters.verb_table import VERBS
from understudy.foundation.cluster.errors import ApiError, Errors
from understudy.foundation.cluster.identifiers import TopicPartition

VERB_TIMEOUT_S: Final = 180.0
"""Time that an answer waits for a verb. `start` waits until ZooKeeper has ended the old session of a killed broker."""
CLIENT_TIMEOUT_MS: Final = 30_000
_CLIENT_ID: Final = "understudy-control"


def application(cluster: Commanded, view: ClusterView, *, hosts: frozenset[str] | None, token: str) -> ASGIApp:
    """Return the application for one cluster.

    Args:
        view: reads the cluster for `GET /cluster`.
        hosts: the values of the header Host that are accepted; None if all are, and every request needs the token.
        token: the token that a request must carry if it changes something.
    """
    port = _ControlPort(cluster, view)
    routes = [
        Route("/cluster", port.cluster, methods=["GET"]),
        Route("/answers", port.answers, methods=["GET"]),
        Route("/openapi.json", port.openapi, methods=["GET"]),
        Route("/docs", port.docs, methods=["GET"]),
        Route("/verbs/{verb}", port.verb, methods=["POST"]),
        Route("/topics", port.create_topic, methods=["POST"]),
        Route("/elections", port.elect, methods=["POST"]),
        Route("/produce", port.produce, methods=["POST"]),
    ]
    statuses = {
        BadValue: 400,
        ClusterError: 409,
        NotARunFolder: 409,
        ZooKeeperNotStarted: 409,
        NoBrokerAnswers: 503,
        OSError: 500,
    }
    handlers: dict[Any, Any] = {kind: _answer_with(503) for kind in NO_ANSWER}
    handlers |= {kind: _answer_with(status) for kind, status in statuses.items()}
    handlers |= {HTTPException: http_error, ApiError: _api_error}
    return Guard(Starlette(routes=routes, exception_handlers=handlers), hosts=hosts, token=token)


class _ControlPort:
    """The functions of the routes."""

    def __init__(self, cluster: Commanded, view: ClusterView) -> None:
        self._cluster = cluster
        self._view = view
        self._openapi = openapi(software_version())

    # ------------------------------------------------------------------ reading

    async def cluster(self, request: Request) -> Response:
        return JSONResponse(await run_in_threadpool(self._cluster.described, self._view))

    async def answers(self, request: Request) -> Response:
        answers = await run_in_threadpool(lambda: [_described(each) for each in self._cluster.answers()])
        return JSONResponse({"answers": answers})

    async def openapi(self, request: Request) -> Response:
        return JSONResponse(self._openapi)

    async def docs(self, request: Request) -> Response:
        return HTMLResponse(docs_page(self._openapi))

    # ------------------------------------------------------------------ changing

    async def verb(self, request: Request) -> Response:
        verb = request.path_params["verb"]
        if verb not in VERBS:
            raise HTTPException(404, f"there is no verb {verb!r}; the verbs are {', '.join(VERBS)}")
        wanted = checked(verb, await _body(request, body_of(verb)))
        outcome = asyncio.wrap_future(await run_in_threadpool(self._cluster.begin, wanted))
        ended, _ = await asyncio.wait([outcome], timeout=VERB_TIMEOUT_S)
        if not ended:
            outcome.cancel()
            raise HTTPException(504, f"{verb} has not ended within {VERB_TIMEOUT_S:g} s; see GET /cluster")
        done = outcome.result()
        answer = {"verb": verb, "done": done.done, "skipped": done.skipped, "message": str(done)}
        return JSONResponse(answer | ({"answer": done.answer} if done.answer else {}))

    async def create_topic(self, request: Request) -> Response:
        topic = await _body(request, NewTopic)
        await (await self._admin()).create_topic(
            topic.name,
            partitions=topic.partitions,
            replication_factor=topic.replication_factor or -1,
            configs=topic.configs,
        )
        return JSONResponse({"name": topic.name, "partitions": topic.partitions})

    async def elect(self, request: Request) -> Response:
        election = await _body(request, Election)
        named = None if election.partitions is None else [parse_partition(each) for each in election.partitions]
        election_type = PREFERRED if election.type == "preferred" else UNCLEAN
        results = await (await self._admin()).elect_leaders(named, election_type=election_type)
        return JSONResponse({"partitions": {_slashed(each): error.name for each, error in sorted(results.items())}})

    async def produce(self, request: Request) -> Response:
        records = await _body(request, Records)
        partition = parse_partition(records.partition)
        connections = Connections(SocketNetwork(), await self._bootstrap(), client_id=_CLIENT_ID)
        with contextlib.closing(connections):
            producer = Producer(
                connections,
                MachineClock(),
                acks=ALL_ACKS if records.acks == "all" else 1,
                delivery_timeout_ms=records.timeout_ms,
            )
            delivery = await producer.send(partition, [value.encode() for value in records.values])
        if delivery.outcome is not DeliveryOutcome.ACKNOWLEDGED:
            status = 409 if delivery.outcome is DeliveryOutcome.REFUSED else 504
            return refused(status, f"the records are {delivery.outcome.value}: {delivery.reason}")
        return JSONResponse({"partition": _slashed(partition), "offset": delivery.offset})

    async def _admin(self) -> AdminClient:
        bootstrap = await self._bootstrap()
        return AdminClient(SocketNetwork(), bootstrap, client_id=_CLIENT_ID, timeout_ms=CLIENT_TIMEOUT_MS)

    async def _bootstrap(self) -> list[str]:
        return await run_in_threadpool(self._cluster.bootstrap)


async def _body(request: Request, kind: type[B]) -> B:
    """Read and decode the body of a request. Raises BadValue, and HTTPException if it is too large or too slow."""
    return decode(await read_body(request), kind)


def _described(handle: AnswerHandle) -> dict[str, Any]:
    """An armed answer as `GET /answers` lists it."""
    return {"id": handle.id, "broker": handle.broker, **msgspec.to_builtins(handle.answer), "hits": handle.hits}


def _slashed(partition: TopicPartition) -> str:
    return f"{partition.topic}/{partition.partition}"


def _answer_with(status: int) -> Callable[[Request, Exception], Response]:
    def answer(request: Request, error: Exception) -> Response:
        return refused(status, str(error))

    return answer


def _api_error(request: Request, error: ApiError) -> Response:
    kafka_error: Errors = error.error
    return refused(409, str(error), kafka_error=kafka_error.name)
