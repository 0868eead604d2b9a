"""Writes what a run of ours did in the form of Apache Kafka's recordings: same JSON, same masks."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence

from foundation.cluster.identifiers import NO_TOPIC_ID
from foundation.eventlog.records import Envelope, RequestDetail, RequestSent
from tests.golden.kafka_json import api_key, as_kafka_shows
from tests.golden.recording import CONTROL_REQUESTS, Json
from understudy.checkers.check import broker_of
from understudy.checkers.facts import BROKERS, TOPICS
from understudy.checkers.history import OpKind, Znode, ZnodeOp, ZnodeTransaction, apply

KINDS = {OpKind.CREATE: "create", OpKind.SET: "setData", OpKind.DELETE: "delete", OpKind.CHECK: "check"}
SHOWN = (*CONTROL_REQUESTS, "ALTER_PARTITION", "CONTROLLED_SHUTDOWN")
OF_THE_SERVER = "/zookeeper"
HOST = "127.0.0.1"
SIMULATED_HOST = r"\bbroker-\d+\b"


class Recorder:
    """Collects a scenario step by step. Feed it everything that has happened so far; it takes what is new."""

    def __init__(self, scenario: str) -> None:
        self.document: Json = {"scenario": scenario, "steps": []}
        self._transactions = 0
        self._records: dict[str, int] = {}
        self._tree: dict[str, Znode] = {"/": Znode(None, 0, 0, 0)}
        self._session_names: dict[int, str] = {}
        self._masks = _Masks()

    def skip(self, transactions: Sequence[ZnodeTransaction], records: Mapping[str, Sequence[Envelope]]) -> None:
        """What has happened so far belongs to no step."""
        self._step("", transactions, records)

    def step(
        self,
        name: str,
        transactions: Sequence[ZnodeTransaction],
        records: Mapping[str, Sequence[Envelope]],
        rc: int | None = None,
    ) -> None:
        """What is new happened in the step `name`. `rc`: what Kafka's tool would have exited with, where a tool did it."""
        self.document["steps"].append(self._step(name, transactions, records) | ({} if rc is None else {"rc": rc}))

    def _step(self, name: str, transactions: Sequence[ZnodeTransaction], records: Mapping[str, Sequence[Envelope]]) -> Json:
        fresh, self._transactions = transactions[self._transactions :], len(transactions)
        for transaction in fresh:
            apply(self._tree, transaction)
            self._masks.learn(transaction.ops)
            for op in transaction.ops:
                if op.kind is OpKind.CREATE and op.path.startswith(BROKERS):
                    self._session_names[op.ephemeral_owner] = f"broker {op.path.removeprefix(BROKERS)}"
        requests = [request for node in sorted(records) for request in self._requests(records[node], records)]
        return {
            "step": name,
            "txns": [self._transaction(transaction) for transaction in fresh],
            "requests": requests,
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
            # ZooKeeper's log, and so the recordings, show the version it met plus one.
            shown["version"] = op.version + 1
        if op.ephemeral_owner:
            shown["ephemeral"] = True
        return shown

    def _text(self, path: str) -> str:
        znode = self._tree[path]
        ephemeral = "  [ephemeral]" if znode.ephemeral_owner else ""
        return f"{self._masks.text(path, znode.data)}{ephemeral}  v{znode.version}"

    # -- requests

    def _requests(self, records: Sequence[Envelope], by_node: Mapping[str, Sequence[Envelope]]) -> Iterable[Json]:
        node = records[0].node if records else ""
        seen, self._records[node] = self._records.get(node, 0), len(records)
        for record in records[seen:]:
            detail = record.data
            if isinstance(detail, RequestDetail) and api_key(detail.api) in SHOWN:
                message = as_kafka_shows(detail.api, detail.api_version, detail.request, detail.response)
                yield {
                    "to": broker_of(record),
                    "key": api_key(detail.api),
                    "version": detail.api_version,
                    "client": detail.client_id,
                    **self._sent(detail, broker_of(record), by_node),
                    **self._masks.message(message),
                }

    def _sent(self, detail: RequestDetail, to: int, by_node: Mapping[str, Sequence[Envelope]]) -> dict[str, int]:
        """The newest zxid its sender knew when it was sent."""
        sent = [
            record.zxid
            for record in by_node.get(f"broker-{detail.client_id}", ())
            if isinstance(record.data, RequestSent)
            and (record.data.to, record.data.correlation_id, record.data.broker_epoch)
            == (to, detail.correlation_id, detail.request.get("broker_epoch"))
            and record.data.controller_epoch == detail.request.get("controller_epoch", -1)
        ]
        return {"zxid": sent[0]} if sent else {}


class _Masks:
    """What depends on when and where a run took place: hosts, ports, times, ids. Kafka's brokers all ran on 127.0.0.1."""

    def __init__(self) -> None:
        self._topics: dict[str, str] = {}
        self._brokers: dict[tuple[str, int], int] = {}
        """By host and port."""

    def learn(self, ops: Iterable[ZnodeOp]) -> None:
        for op in ops:
            if op.path.startswith(BROKERS) and op.data:
                registered = json.loads(op.data)
                self._brokers[(registered["host"], registered["port"])] = int(op.path.removeprefix(BROKERS))
            topic = op.path.removeprefix(TOPICS)
            if op.path.startswith(TOPICS) and "/" not in topic and op.data:
                self._topics |= {topic_id: topic for topic_id in [json.loads(op.data).get("topic_id")] if topic_id}

    def text(self, path: str, data: bytes | None) -> str:
        """A znode's bytes as the tree shows them."""
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
        """A znode's bytes as a transaction shows them: parsed, where they are JSON."""
        if data is None:
            return None
        text = re.sub(r"<port \d+>", "<port>", self.text(path, data)).replace('"port":<port>', '"port":"<port>"')
        try:
            return json.loads(text)
        except ValueError:
            return text

    def message(self, value: Json) -> Json:
        """A message with masked topic ids and ports; what it calls a port or a topic id is one."""
        if isinstance(value, dict):
            host = next((name for name in ("host", "hostName") if name in value), None)
            masked = {name: self._field(name, inner) for name, inner in value.items()}
            if host is not None:
                masked |= {host: HOST, "port": f"<port {self._brokers.get((value[host], value['port']), 'of nobody')}>"}
            return masked
        return [self.message(inner) for inner in value] if isinstance(value, list) else value

    def _field(self, name: str, value: Json) -> Json:
        if name == "topicId" and value != NO_TOPIC_ID:
            return f"<id of {self._topics.get(value, value)}>"
        return self.message(value)
