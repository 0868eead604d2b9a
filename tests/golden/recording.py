"""Reads recordings of scenarios, and normalises them for the comparison.

`README.md` beside this file describes the JSON and defines which recordings are equal. Recordings of Understudy hold
two more facts, which Kafka does not log: the zxid of each transaction, and the newest zxid that the controller had seen
when it sent a request.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

FOLDER = Path(__file__).parent
SCENARIOS = tuple(sorted(path.stem for path in FOLDER.glob("*.json") if path.stem != "frames"))

Json: TypeAlias = Any
TopicPartition: TypeAlias = tuple[str, int]

CONTROLLER_EPOCH = "/controller_epoch"
REFUSED_AS_INELIGIBLE = (107, 55)
"""INELIGIBLE_REPLICA, and OPERATION_NOT_ATTEMPTED, which AlterPartition up to version 1 has in its place (IS-10)."""
TOPICS = ("topicStates", "ungroupedPartitionStates", "ungroupedPartitions", "topics")
"""Fields with the partitions of a control request; its version determines which one it has."""
CONTROL_REQUESTS = ("LEADER_AND_ISR", "UPDATE_METADATA", "STOP_REPLICA")


def load(scenario: str) -> Json:
    return json.loads((FOLDER / f"{scenario}.json").read_text())


def as_text(document: Json) -> str:
    """JSON with one line per transaction, request and znode, so that people can compare two recordings."""
    steps = [_as_lines(step, "  ") for step in document["steps"]]
    head = {name: value for name, value in document.items() if name != "steps"}
    return json.dumps(head)[:-1] + ', "steps": [\n ' + ",\n ".join(steps) + "\n]}\n"


def _as_lines(value: Json, indent: str) -> str:
    """JSON with each value on a line, two levels deep."""
    parts = [f"{json.dumps(name)}: {_each_on_a_line(inner, indent + ' ')}" for name, inner in value.items()]
    return "{\n" + indent + (",\n" + indent).join(parts) + "\n }"


def _each_on_a_line(value: Json, indent: str) -> str:
    if isinstance(value, list) and value:
        return "[\n" + indent + (",\n" + indent).join(map(json.dumps, value)) + "]"
    if isinstance(value, dict) and value:
        return (
            "{\n" + indent + (",\n" + indent).join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in value.items()) + "}"
        )
    return json.dumps(value)


class Write(NamedTuple):
    """A successful write to one znode."""

    kind: str
    data: str
    """JSON with sorted keys; bytes are compared in the tree."""
    version: int | None
    role: str
    """`controller of epoch N`, `candidate`, `broker N` or `tool`."""
    fence: int | None
    """The version of `/controller_epoch` that its transaction checks, as ZooKeeper's log shows it."""
    zxid: int | None


class Answered(NamedTuple):
    """A control request to one broker: its fields apart from partitions, its partitions, and the answer to each."""

    kind: str
    header: str
    partitions: dict[TopicPartition, tuple[str, ...]]
    """The state of each partition, with its answer; several states if merged requests held different ones."""
    live_leaders: tuple[str, ...]


@dataclass
class Step:
    """One normalised step."""

    name: str
    rc: int | None
    refused: str | None
    """The error of the tool's request, if the recording holds one."""
    tree: dict[str, str] = field(default_factory=dict)
    writes: dict[str, list[Write]] = field(default_factory=dict)
    requests: dict[int, list[Answered]] = field(default_factory=dict)
    proposals: set[str] = field(default_factory=set)
    """The granted changes of AlterPartition requests."""
    shutdowns: list[str] = field(default_factory=list)
    leaving: set[int] = field(default_factory=set)
    """Brokers whose session ended in this step; which requests they still received depends on timing."""
    too_early: list[str] = field(default_factory=list)
    """Requests with a partition state that their controller had not written when it sent them."""


def normalise(document: Json) -> list[Step]:
    """The steps of a recording, with roles instead of brokers, and with masks for values that may differ."""
    return list(_Normaliser(document).steps())


class _Normaliser:
    def __init__(self, document: Json) -> None:
        self._document = document
        self._controllers = _controllers(document)
        self._broker_epochs = _broker_epochs(document)
        self._epoch = self._first_epoch = _epoch_before(document)
        self._received: dict[tuple[int, TopicPartition], tuple[str, ...]] = {}
        """The last state of each partition that each broker received in UpdateMetadata."""
        self._live: dict[int, Json] = {}
        """The live brokers that each broker last received in UpdateMetadata."""
        self._versions: dict[tuple[str, int], list[int | None]] = {}
        """The zxids of all writes so far, by path and resulting version."""

    def steps(self) -> Iterator[Step]:
        for recorded in self._document["steps"]:
            step = Step(recorded["step"], recorded.get("rc"), recorded.get("refused"))
            for transaction in recorded["txns"]:
                self._take_transaction(step, transaction)
            step.tree = {path: self._tree_text(path, text) for path, text in recorded["tree"].items()}
            refused = set(_refused_as_ineligible(recorded["requests"]))
            for request in recorded["requests"]:
                self._take_request(step, request, refused)
            step.requests = {broker: list(merge_neighbours(step.requests[broker])) for broker in sorted(step.requests)}
            yield step

    # -- transactions

    def _take_transaction(self, step: Step, transaction: Json) -> None:
        ops = transaction.get("multi", [transaction])
        if any(op["op"] == "error" for op in ops):
            return
        fence = next((op["version"] for op in ops if op["op"] == "check" and op["path"] == CONTROLLER_EPOCH), None)
        self._epoch = next(iter(_elections(transaction)), (self._epoch, 0))[0]
        for op in ops:
            if op["op"] == "closeSession":
                step.leaving |= {int(name) for name in re.findall(r"^broker (\d+)$", transaction["by"])}
            # The end of a tool's session deletes no ephemeral node.
            if op["op"] == "check" or (op["op"] == "closeSession" and not transaction["by"].startswith("broker ")):
                continue
            path = op.get("path", f"the session of {transaction['by']}")
            data = self._controller_data(op.get("data")) if path == "/controller" else op.get("data")
            role = self._role(transaction["by"], op["op"], path)
            zxid = transaction.get("zxid")
            step.writes.setdefault(path, []).append(Write(op["op"], _text(data), op.get("version"), role, fence, zxid))
            self._versions.setdefault((path, op.get("version", 0)), []).append(zxid)

    def _role(self, by: str, op: str, path: str) -> str:
        if not by.startswith("broker "):
            return "tool"
        if path == CONTROLLER_EPOCH and op == "create":
            return "candidate"
        own = path.startswith(("/brokers/ids/", "the session of"))
        return (
            f"controller of epoch {self._epoch}"
            if not own and by == f"broker {self._controllers.get(self._epoch)}"
            else by
        )

    def _controller_data(self, data: Json) -> Json:
        return data if data is None else {**data, "brokerid": self._label(data["brokerid"])}

    def _label(self, broker: int) -> Json:
        """A mask for the winner of an election, which depends on timing; the very first controller had no rival."""
        raced = self._epoch != 1 or self._first_epoch > 1
        return (
            f"<controller of epoch {self._epoch}>" if raced and broker == self._controllers.get(self._epoch) else broker
        )

    def _tree_text(self, path: str, text: str) -> str:
        if path != "/controller":
            return text
        return re.sub(r'"brokerid":(\d+)', lambda match: f'"brokerid":{self._label(int(match.group(1)))}', text)

    # -- requests

    def _take_request(self, step: Step, recorded: Json, refused: set[TopicPartition]) -> None:
        kind, request, response = recorded["key"], recorded["request"], recorded["response"]
        if kind == "ALTER_PARTITION":
            step.proposals |= set(self._granted(recorded["client"], request, response))
        elif kind == "CONTROLLED_SHUTDOWN":
            masked = {**request, "brokerEpoch": self._broker_epoch(request["brokerId"], request["brokerEpoch"])}
            asked = {
                "client": recorded["client"],
                "version": recorded["version"],
                "request": masked,
                "response": response,
            }
            step.shutdowns.append(_text(asked))
        elif kind in CONTROL_REQUESTS:
            answered = self._answered(recorded)
            if not self._is_echo(recorded["to"], answered, refused):
                step.requests.setdefault(recorded["to"], []).append(answered)
            step.too_early += self._early_states(recorded)

    def _is_echo(self, broker: int, answered: Answered, refused: set[TopicPartition]) -> bool:
        """Whether this UpdateMetadata follows a refused AlterPartition and holds only what the broker has received.

        A leader proposes to add a stopping broker to the ISR as soon as that broker fetches from it, and is refused
        (`REFUSED_AS_INELIGIBLE`). Whether the fetch comes before the shutdown depends on timing, in Kafka as here.
        """
        if answered.kind != "UPDATE_METADATA":
            return False
        received = [((broker, partition), state) for partition, state in answered.partitions.items()]
        live = json.loads(answered.header)["liveBrokers"]
        is_news = self._live.get(broker) != live or any(self._received.get(key) != state for key, state in received)
        self._live[broker] = live
        self._received.update(received)
        return bool(received) and not is_news and refused.issuperset(answered.partitions)

    def _granted(self, client: str, request: Json, response: Json) -> Iterator[str]:
        granted = {
            (_named(topic), partition["partitionIndex"]): partition
            for topic in response["topics"]
            for partition in topic["partitions"]
            if response["errorCode"] == partition["errorCode"] == 0
        }
        for topic in request["topics"]:
            for partition in topic["partitions"]:
                answer = granted.get((_named(topic), partition["partitionIndex"]))
                if answer is not None:
                    yield _text({"client": client, "topic": _named(topic), "asked": partition, "answered": answer})

    def _answered(self, recorded: Json) -> Answered:
        request, response = recorded["request"], recorded["response"]
        free = (*TOPICS, "liveBrokers", "liveLeaders", "brokerEpoch", "controllerId")
        header = {name: value for name, value in request.items() if name not in free}
        epoch = request["controllerEpoch"]
        header |= {
            "apiVersion": recorded["version"],
            "controllerId": _is(request["controllerId"], self._controllers[epoch], epoch),
            "clientId": _is(int(recorded["client"]), self._controllers[epoch], epoch),
            "brokerEpoch": self._broker_epoch(recorded["to"], request.get("brokerEpoch")),
            "liveBrokers": sorted(request.get("liveBrokers", []), key=lambda broker: broker["id"]),
            "answer": response["errorCode"],
        }
        answers = _answers(request, response)
        partitions: dict[tuple[str, int], tuple[str, ...]] = {
            (topic["topicName"], state["partitionIndex"]): (
                _text(
                    {
                        **state,
                        "topicId": topic.get("topicId"),
                        "answer": answers.get((topic["topicName"], state["partitionIndex"])),
                    }
                ),
            )
            for topic in _topic_states(request)
            for state in topic["partitionStates"]
        }
        leaders = sorted(request.get("liveLeaders", []), key=lambda leader: leader["brokerId"])
        return Answered(recorded["key"], _text(header), partitions, tuple(_text(leader) for leader in leaders))

    def _broker_epoch(self, broker: int, epoch: int | None) -> str:
        """A mask for a broker epoch: the registration to which it belongs. Old versions have no broker epoch."""
        if epoch is None:
            return "none"
        return f"<registration {sorted(self._broker_epochs[broker]).index(epoch) + 1} of broker {broker}>"

    def _early_states(self, recorded: Json) -> Iterator[str]:
        for topic in _topic_states(recorded["request"]):
            for state in topic["partitionStates"]:
                version = state.get("partitionEpoch", state.get("zkVersion"))
                if version is None or state.get("leader") == -2:
                    continue
                path = f"/brokers/topics/{topic['topicName']}/partitions/{state['partitionIndex']}/state"
                written = self._versions.get((path, version), [])
                if not any(zxid is None or "zxid" not in recorded or zxid <= recorded["zxid"] for zxid in written):
                    request = f"{recorded['key']} to {recorded['to']}"
                    yield f"{request} carries version {version} of {path} before it was written"


def _refused_as_ineligible(requests: Iterable[Json]) -> Iterator[TopicPartition]:
    for request in requests:
        if request["key"] == "ALTER_PARTITION":
            for topic in request["response"]["topics"]:
                name = re.sub("^<id of (.*)>$", r"\1", _named(topic))
                yield from (
                    (name, p["partitionIndex"]) for p in topic["partitions"] if p["errorCode"] in REFUSED_AS_INELIGIBLE
                )


def _named(topic: Json) -> str:
    """The topic's id, or its name in old versions of AlterPartition."""
    name: str = topic["topicId"] if "topicId" in topic else topic["topicName"]
    return name


def merge_neighbours(requests: Iterable[Answered]) -> Iterator[Answered]:
    """Merge consecutive requests of the same kind and header into one with the partitions of all."""
    last: Answered | None = None
    for request in requests:
        if last is not None and (last.kind, last.header) == (request.kind, request.header):
            partitions = dict(last.partitions)
            for partition, state in request.partitions.items():
                before = partitions.get(partition, ())
                partitions[partition] = before if before[-1:] == state else before + state
            leaders = tuple(sorted({*last.live_leaders, *request.live_leaders}))
            last = Answered(last.kind, last.header, dict(sorted(partitions.items())), leaders)
            continue
        if last is not None:
            yield last
        last = request._replace(partitions=dict(sorted(request.partitions.items())))
    if last is not None:
        yield last


def _topic_states(request: Json) -> list[Json]:
    """The partition states by topic, as new versions have them, from whichever of `TOPICS` a request has."""
    if "topicStates" in request:
        states: list[Json] = request["topicStates"]
        return states
    by_topic: dict[str, list[Json]] = {}
    for state in request.get("ungroupedPartitionStates", request.get("ungroupedPartitions", [])):
        by_topic.setdefault(state["topicName"], []).append({name: state[name] for name in state if name != "topicName"})
    for topic in request.get("topics", []):
        by_topic[topic["name"]] = [{"partitionIndex": partition} for partition in topic["partitionIndexes"]]
    return [{"topicName": topic, "partitionStates": states} for topic, states in by_topic.items()]


def _answers(request: Json, response: Json) -> dict[TopicPartition, int]:
    names = {topic.get("topicId"): topic["topicName"] for topic in _topic_states(request)}
    by_id = {
        (names.get(topic["topicId"], topic["topicId"]), partition["partitionIndex"]): partition["errorCode"]
        for topic in response.get("topics", [])
        for partition in topic["partitionErrors"]
    }
    by_name = {
        (error["topicName"], error["partitionIndex"]): error["errorCode"]
        for error in response.get("partitionErrors", [])
    }
    return by_id | by_name


def _elections(transaction: Json) -> Iterator[tuple[int, int]]:
    """The (controller epoch, broker) of an election, if the transaction is one."""
    ops = {op.get("path"): op for op in transaction.get("multi", ()) if op["op"] != "error"}
    if "/controller" in ops and CONTROLLER_EPOCH in ops and ops["/controller"]["op"] == "create":
        yield ops[CONTROLLER_EPOCH]["data"], ops["/controller"]["data"]["brokerid"]


def _elected(document: Json) -> dict[int, int]:
    """The elected broker by controller epoch, for the elections in the recording."""
    return dict(won for recorded in document["steps"] for txn in recorded["txns"] for won in _elections(txn))


def _epoch_before(document: Json) -> int:
    """The controller epoch at the beginning of the recording; 0 if no controller has been elected yet."""
    first = document["steps"][0]
    if any(True for transaction in first["txns"] for _ in _elections(transaction)):
        return min(_elected(document)) - 1
    epochs = [
        request["request"]["controllerEpoch"] for request in first["requests"] if request["key"] in CONTROL_REQUESTS
    ]
    return min(epochs, default=min(_controllers(document), default=0))


def _controllers(document: Json) -> dict[int, int]:
    """The controller by epoch, including those elected before the recording."""
    named = {
        request["request"]["controllerEpoch"]: request["request"]["controllerId"]
        for recorded in document["steps"]
        for request in recorded["requests"]
        if request["key"] in CONTROL_REQUESTS
    }
    return named | _elected(document)


def _broker_epochs(document: Json) -> dict[int, set[int]]:
    epochs: dict[int, set[int]] = {}
    for recorded in document["steps"]:
        for request in recorded["requests"]:
            broker = request["to"] if request["key"] in CONTROL_REQUESTS else request["request"]["brokerId"]
            if "brokerEpoch" in request["request"]:
                epochs.setdefault(broker, set()).add(request["request"]["brokerEpoch"])
    return epochs


def _is(broker: int, expected: int, epoch: int) -> Json:
    return f"<controller of epoch {epoch}>" if broker == expected else broker


def _text(value: Json) -> str:
    return json.dumps(value, sort_keys=True)
