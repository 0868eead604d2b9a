"""`understudy plan partitions`: how many partitions a topic needs for a throughput, and what they cost."""

from __future__ import annotations

import argparse
import asyncio
import json
from pathlib import Path
from typing import Final

from understudy.brokers.machine.real_world import MachineClock
from understudy.brokers.machine.socket_network import SocketNetwork
from understudy.cli.arguments import BadInput, Failed, Verbs, count, reported_as, servers
from understudy.clusters.clients.cluster_requests import NoBrokerAnswers
from understudy.kafka_tools.planning.partitions import PartitionsPlan, partitions_answer, partitions_json
from understudy.kafka_tools.planning.plan_answer import BadPlan, PlanAnswer, html_of, text_of
from understudy.kafka_tools.planning.rate_measurement import measure

_MEGABYTE: Final = 1_000_000
_UNITS: Final = {
    "": _MEGABYTE,
    "kb": 1_000,
    "mb": _MEGABYTE,
    "gb": 1_000_000_000,
    "kib": 1 << 10,
    "mib": 1 << 20,
    "gib": 1 << 30,
}


def register(plans: Verbs) -> None:
    parser = plans.add_parser(
        "partitions",
        help="how many partitions a throughput needs, and what they cost",
        description="Compute how many partitions a topic needs for a throughput: max(Tt / Tp, Tt / Tc). A "
        "partition takes Tp from producers and gives Tc to a consumer. The rates are measured on a cluster, in a topic "
        "that is made for it and deleted, or given.",
    )
    parser.add_argument("--target", type=_rate, required=True, metavar="RATE", help="Tt, for example 500MB/s")
    parser.add_argument("--bootstrap-server", type=servers, metavar="HOST:PORT,…", help="the cluster to measure")
    parser.add_argument("--producer-rate", type=_rate, metavar="RATE", help="Tp, in place of measuring it")
    parser.add_argument("--consumer-rate", type=_rate, metavar="RATE", help="Tc, in place of measuring it")
    parser.add_argument("--replication-factor", type=count, default=3, metavar="N", help="replicas of a partition")
    parser.add_argument(
        "--brokers", type=count, metavar="N", help="the number of brokers (default the cluster's, or 3)"
    )
    parser.add_argument("--message-size", type=count, default=1_000, metavar="BYTES", help="the size of a record")
    parser.add_argument("--batch-size", type=count, default=65_536, metavar="BYTES", help="batch.size of the producer")
    parser.add_argument("--seconds", type=count, default=5, metavar="N", help="the seconds of each measurement")
    shown = parser.add_mutually_exclusive_group()
    shown.add_argument("--json", action="store_true", help="print JSON")
    shown.add_argument("--html", type=Path, metavar="FILE", help="write a page for a browser instead of text")
    parser.set_defaults(run=run)


@reported_as(BadInput, BadPlan)
def run(options: argparse.Namespace) -> int:
    plan = _plan(options)
    if options.json:
        print(json.dumps(partitions_json(plan), indent=2))
        return 0
    answer = partitions_answer(plan)
    return show(answer, options.html)


def show(answer: PlanAnswer, html: Path | None) -> int:
    """Print an answer, or write it as a page to `html` and print the name of the file. Raises Failed."""
    if html is None:
        print(text_of(answer), end="")
        return 0
    with reported_as(Failed, OSError, about="--html"):
        html.write_text(html_of(answer), encoding="utf-8")
    print(html)
    return 0


def _plan(options: argparse.Namespace) -> PartitionsPlan:
    given = options.producer_rate, options.consumer_rate
    if options.bootstrap_server is None:
        if None in given:
            raise BadInput("nothing to plan with; give --bootstrap-server, or both --producer-rate and --consumer-rate")
        return PartitionsPlan(
            target=options.target,
            producer_rate=options.producer_rate,
            consumer_rate=options.consumer_rate,
            rates_from="given on the command line",
            brokers=options.brokers or max(3, options.replication_factor),
            replication_factor=options.replication_factor,
        )
    if None not in given:
        raise BadInput("both rates are given, so that nothing is left to measure; leave out --bootstrap-server")
    return _measured_plan(options)


@reported_as(Failed, NoBrokerAnswers)
def _measured_plan(options: argparse.Namespace) -> PartitionsPlan:
    found = asyncio.run(
        measure(
            SocketNetwork(),
            MachineClock(),
            options.bootstrap_server,
            replication_factor=options.replication_factor,
            message_bytes=options.message_size,
            batch_bytes=options.batch_size,
            seconds=options.seconds,
        )
    )
    how = (
        f"measured on this cluster for at most {options.seconds} s a side, by one client in Python with records of "
        f"{options.message_size:,} bytes in batches of {options.batch_size:,}, acks=all, replication factor "
        f"{options.replication_factor}"
    )
    sides = [name for name, rate in (("Tp", options.producer_rate), ("Tc", options.consumer_rate)) if rate is not None]
    return PartitionsPlan(
        target=options.target,
        producer_rate=options.producer_rate or found.producer_rate,
        consumer_rate=options.consumer_rate or found.consumer_rate,
        rates_from=how + "".join(f"; {side} given on the command line" for side in sides),
        brokers=options.brokers or found.brokers,
        replication_factor=options.replication_factor,
        existing_partitions=found.partitions,
        existing_replicas=found.replicas,
    )


def _rate(text: str) -> float:
    """Parse a rate, `500MB/s`, into MB/s."""
    plain = text.strip().lower().removesuffix("/s")
    digits = plain.rstrip("abcdefghijklmnopqrstuvwxyz ")
    unit = plain[len(digits) :].strip()
    try:
        rate = float(digits) * _UNITS[unit] / _MEGABYTE
    except (ValueError, KeyError):
        rate = 0.0
    if not 0 < rate < 1e9:
        raise argparse.ArgumentTypeError(f"{text!r} is not a rate above 0, for example 500MB/s, 80MiB/s or 1.5GB/s")
    return rate
