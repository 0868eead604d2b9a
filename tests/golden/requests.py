"""Reads the requests that brokers answered, as Kafka's request log shows them: from event logs, or from that log."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tests.golden.kafka_json import api_key, as_kafka_shows
from tests.golden.recording import CONTROL_REQUESTS, Json
from understudy.brokers.membership.registration import NO_BROKER_EPOCH
from understudy.checks.check import broker_of
from understudy.foundation.eventlog.records import Envelope, RequestDetail, RequestSent

SHOWN = (*CONTROL_REQUESTS, "ALTER_PARTITION", "CONTROLLED_SHUTDOWN")

COMPLETED = "Completed request:"
"""Before each JSON document in Kafka's request log."""


def of_events(records: Mapping[str, Sequence[Envelope]]) -> dict[int, list[Json]]:
    """The requests that each broker answered, from the records of all nodes, in the order of completion."""
    found: dict[int, list[Json]] = {}
    for node in sorted(records):
        for record in records[node]:
            detail = record.data
            if isinstance(detail, RequestDetail) and api_key(detail.api) in SHOWN:
                to = broker_of(record)
                shown = {
                    "to": to,
                    "key": api_key(detail.api),
                    "version": detail.api_version,
                    "client": detail.client_id,
                    **_sent(record, detail, records),
                    **as_kafka_shows(detail.api, detail.api_version, detail.request, detail.response),
                }
                found.setdefault(to, []).append(shown)
    return found


def _sent(answered: Envelope, detail: RequestDetail, records: Mapping[str, Sequence[Envelope]]) -> dict[str, int]:
    """The newest zxid that the sender had seen when it sent the request.

    If `/controller_epoch` was deleted, epochs occur twice, so the last matching request is taken.
    """
    asked = detail.request
    sent = [
        record.zxid
        for record in records.get(f"broker-{detail.client_id}", ())
        if isinstance(record.data, RequestSent)
        and (record.data.to, record.data.correlation_id) == (broker_of(answered), detail.correlation_id)
        # Old versions have no broker epoch.
        and asked.get("broker_epoch", NO_BROKER_EPOCH) in (NO_BROKER_EPOCH, record.data.broker_epoch)
        and record.data.controller_epoch == asked.get("controller_epoch", -1)
        and record.wall_ms <= answered.wall_ms
    ]
    return {"zxid": sent[-1]} if sent else {}


def of_request_log(broker: int, log: Path) -> Iterator[Json]:
    """The requests in Kafka's request log at DEBUG; a line that is still being written is left for the next call."""
    with log.open(encoding="utf-8") as lines:
        for line in lines:
            if not line.endswith("\n") or COMPLETED not in line:
                continue
            # Parsing every Fetch would take much longer.
            if not any(f'"{key}"' in line for key in SHOWN):
                continue
            logged = json.loads(line.partition(COMPLETED)[2])
            header = logged["requestHeader"]
            if header["requestApiKeyName"] in SHOWN:
                yield {
                    "to": broker,
                    "key": header["requestApiKeyName"],
                    "version": header["requestApiVersion"],
                    "client": header["clientId"],
                    "request": logged["request"],
                    "response": logged["response"],
                }
