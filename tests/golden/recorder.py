"""Records a run, of Understudy or of Kafka, in the JSON format of the recordings, with the same masks."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence

from tests.golden.recording import Json
from understudy.checks.facts import BROKERS, TOPICS
from understudy.checks.history import OpKind, Znode, ZnodeOp, ZnodeTransaction, apply
from understudy.foundation.cluster.identifiers import NO_TOPIC_ID

KINDS = {OpKind.CREATE: "create", OpKind.SET: "setData", OpKind.DELETE: "delete", OpKind.CHECK: "check"}
OF_THE_SERVER = "/zookeeper"
HOST = "127.0.0.1"
SIMULATED_HOST = r"\bbroker-\d+\b"


class Recorder:
    """Collects the steps of a scenario. Each call receives all that has happened so far, and takes the new part."""

    def __init__(self, scenario: str) -> None:
        self.document: Json = {"scenario": scenario, "steps": []}
        self._transactions = 0
        self._requests: dict[int, int] = {}
        self._tree: dict[str, Znode] = {"/": Znode(None, 0, 0, 0)}
        self._session_names: dict[int, str] = {}
        self._masks = _Masks()

    def skip(self, transactions: Sequence[ZnodeTransaction], requests: Mapping[int, Sequence[Json]]) -> None:
        """Leave what has happened since the last step out of the recording."""
        self._step("", transactions, requests)

    def step(
        self,
        name: str,
        transactions: Sequence[ZnodeTransaction],
        requests: Mapping[int, Sequence[Json]],
        outcome: Mapping[str, Json],
    ) -> None:
        """Record the new part as the step `name`. `requests`: those that each broker has answered (`requests.py`)."""
        self.document["steps"].append(self._step(name, transactions, requests) | dict(outcome))

    def _step(
        self, name: str, transactions: Sequence[ZnodeTransaction], requests: Mapping[int, Sequence[Json]]
    ) -> Json:
        fresh, self._transactions = transactions[self._transactions :], len(transactions)
        for transaction in fresh:
            apply(self._tree, transaction)
            self._masks.learn(transaction.ops)
            for op in transaction.ops:
                if op.kind is OpKind.CREATE and op.path.startswith(BROKERS) and op.ephemeral_owner:
                    self._session_names[op.ephemeral_owner] = f"broker {op.path.removeprefix(BROKERS)}"
        answered: list[Json] = []
        for broker in sorted(requests):
            seen, self._requests[broker] = self._requests.get(broker, 0), len(requests[broker])
            answered += [self._masks.message(request) for request in requests[broker][seen:]]
        return {
            "step": name,
            "txns": [self._transaction(transaction) for transaction in fresh],
            "requests": answered,
            "tree": {path: self._text(path) for path in sorted(self._tree) if not path.startswith(OF_THE_SERVER)},
        }

    # -- transactions

    def _transaction(self, transaction: ZnodeTransaction) -> Json:
        by = self._session_names.get(transaction.session_id, f"session {transaction.session_id:x}")
        head = {"by": by, "zxid": transaction.zxid}
        if transaction.closed_session:
            return head | {"op": "closeSession"}
        ops = [self._operation(op) for op in transaction.ops]
        return head | (ops[0] if len(ops) == 1 else {"multi": ops})

    def _operation(self, op: ZnodeOp) -> Json:
        shown: Json = {"op": KINDS[op.kind], "path": op.path}
        if op.kind in (OpKind.CREATE, OpKind.SET):
            shown["data"] = self._masks.parsed(op.path, op.data)
        if op.kind is OpKind.SET:
            shown["version"] = op.version
        if op.kind is OpKind.CHECK:
            # ZooKeeper's log, and so the recordings, show the expected version plus one.
            shown["version"] = op.version + 1
        if op.ephemeral_owner:
            shown["ephemeral"] = True
        return shown

    def _text(self, path: str) -> str:
        znode = self._tree[path]
        ephemeral = "  [ephemeral]" if znode.ephemeral_owner else ""
        return f"{self._masks.text(path, znode.data)}{ephemeral}  v{znode.version}"


class _Masks:
    """Masks what depends on time and place of a run: hosts, ports, times, ids. Kafka's brokers ran on 127.0.0.1."""

    def __init__(self) -> None:
        self._topics: dict[str, str] = {}
        self._brokers: dict[tuple[str, int], int] = {}
        """The mask of each host and port."""

    def learn(self, ops: Iterable[ZnodeOp]) -> None:
        for op in ops:
            if op.path.startswith(BROKERS) and op.data:
                broker = int(op.path.removeprefix(BROKERS))
                for endpoint in json.loads(op.data)["endpoints"]:
                    host, _, port = endpoint.partition("://")[2].rpartition(":")
                    self._brokers[(host, int(port))] = broker
            topic = op.path.removeprefix(TOPICS)
            if op.path.startswith(TOPICS) and "/" not in topic and op.data:
                self._topics |= {topic_id: topic for topic_id in [json.loads(op.data).get("topic_id")] if topic_id}

    def text(self, path: str, data: bytes | None) -> str:
        """A znode's bytes as text, as the tree of a recording shows them."""
        text = (data or b"").decode()
        text = re.sub(r'"timestamp":"\d+"', '"timestamp":"<ms>"', text)
        for topic_id, topic in self._topics.items():
            text = text.replace(topic_id, f"<id of {topic}>")
        if path == "/cluster/id":
            text = re.sub(r'"id":"[^"]{22}"', '"id":"<cluster id>"', text)
        if path.startswith(BROKERS):
            text = re.sub(SIMULATED_HOST, HOST, text)
            text = re.sub(rf'({HOST}:|"port":)\d+', rf"\g<1><port {path.removeprefix(BROKERS)}>", text)
        return text

    def parsed(self, path: str, data: bytes | None) -> Json:
        """A znode's bytes as a transaction of a recording shows them: parsed if they are JSON."""
        if data is None:
            return None
        text = re.sub(r"<port \d+>", "<port>", self.text(path, data)).replace('"port":<port>', '"port":"<port>"')
        try:
            return json.loads(text)
        except ValueError:
            return text

    def message(self, value: Json) -> Json:
        """A message with masked topic ids and ports, which are recognised by their field names."""
        if isinstance(value, dict):
            host = next((name for name in ("host", "hostName") if name in value), None)
            masked = {name: self._field(name, inner) for name, inner in value.items()}
            if host is not None:
                masked |= {
                    host: HOST,
                    "port": f"<port {self._brokers.get((value[host], value['port']), 'of no broker')}>",
                }
            return masked
        return [self.message(inner) for inner in value] if isinstance(value, list) else value

    def _field(self, name: str, value: Json) -> Json:
        if name == "topicId" and value != NO_TOPIC_ID:
            return f"<id of {self._topics.get(value, value)}>"
        return self.message(value)
