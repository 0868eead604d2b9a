"""The parts of `understudy producer-perf` and `consumer-perf`: payloads, statistics, command lines, times."""

from __future__ import annotations

import io
from itertools import islice

import pytest

from understudy.kafka_tools.console import Console
from understudy.kafka_tools.consumer_perf import strftime_of
from understudy.kafka_tools.errors import ToolError
from understudy.kafka_tools.java_random import SplittableRandom
from understudy.kafka_tools.latencies import Latencies
from understudy.kafka_tools.options import Options
from understudy.kafka_tools.producer_perf import DISTINCT_BYTES, java_split, payloads_of
from understudy.kafka_tools.producer_perf_arguments import parse

ENOUGH = ["--topic", "a", "--num-records", "1", "--throughput", "-1", "--record-size", "1", "--producer-props", "a=b"]


def a_console() -> tuple[Console, io.StringIO]:
    out = io.StringIO()
    return Console(out, io.StringIO(), str), out


def test_numbers_are_those_of_javas_random_source() -> None:
    source = SplittableRandom(0)
    # What Kafka's tool sends first, as recorded in the tool scripts.
    assert "".join(chr(65 + source.next_int(26)) for _ in range(12)) == "YQHHNEBSEPDN"
    assert {SplittableRandom(1).next_int(8), *(source.next_int(8) for _ in range(100))} <= set(range(8))


def test_payloads_begin_again_after_the_distinct_ones() -> None:
    size = DISTINCT_BYTES // 4
    made = list(islice(payloads_of(Options([("record-size", str(size))]), a_console()[0]), 6))
    assert len(set(made)) == 4
    assert made[4:] == made[:2]
    assert next(payloads_of(Options([("record-size", "0")]), a_console()[0])) == b""
    assert list(islice(payloads_of(Options([("payload-monotonic", "")]), a_console()[0]), 3)) == [b"0", b"1", b"2"]


@pytest.mark.parametrize(
    ("pattern", "text", "parts"),
    [("\n", "a\nb\n\n", ["a", "b"]), ("|", "a|b", ["a", "|", "b"]), (",", ",a", ["", "a"]), (",", "a", ["a"])],
)
def test_files_are_split_as_java_does(pattern: str, text: str, parts: list[str]) -> None:
    assert java_split(pattern, text) == parts


def test_rates_latencies_and_percentiles_are_printed_in_kafkas_format() -> None:
    console, out = a_console()
    latencies = Latencies(console, 200, 0.0)
    for number in range(200):
        latencies.record(number, 1024 * 1024, 4_000.0 if number < 199 else 5_000.0)
    latencies.print_total(10_000.0)
    assert out.getvalue().splitlines() == [
        "200 records sent, 40.0 records/sec (40.00 MB/sec), 99.5 ms avg latency, 199.0 ms max latency.",
        "200 records sent, 20.000000 records/sec (20.00 MB/sec), 99.50 ms avg latency, 199.00 ms max latency, "
        "100 ms 50th, 190 ms 95th, 198 ms 99th, 199 ms 99.9th.",
    ]


def test_without_any_acknowledged_record_there_is_no_mean() -> None:
    console, out = a_console()
    Latencies(console, 5, 0.0).print_total(1_000.0)
    assert out.getvalue().startswith("0 records sent, 0.000000 records/sec (0.00 MB/sec), NaN ms avg latency")


def test_properties_are_all_words_up_to_the_next_flag() -> None:
    given = parse([*ENOUGH, "c=d", "--payload-delimiter=,"])
    assert given.values("producer-props") == ["a=b", "c=d"]
    assert given.value("payload-delimiter") == ","
    assert given.value("throughput") == "-1"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([*ENOUGH, "--nosuch"], "unrecognized arguments: '--nosuch'"),
        ([*ENOUGH, "--payload-file", "f"], "argument --payload-file: not allowed with argument --record-size"),
        (ENOUGH[2:], "argument --topic is required"),
        (["--topic"], "argument --topic: expected one argument"),
        (["--record-size", "x"], "could not convert 'x' to Integer"),
        (["--throughput", "x"], "could not convert 'x' to Double"),
        (["--producer-props"], "argument --producer-props: expected at least one argument"),
    ],
)
def test_a_wrong_command_line_is_refused(words: list[str], message: str) -> None:
    with pytest.raises(ToolError, match=message):
        parse(words)


def test_times_are_shown_in_javas_format() -> None:
    assert strftime_of("yyyy-MM-dd HH:mm:ss:SSS") == "%Y-%m-%d %H:%M:%S:\0"
    assert strftime_of("HH%mm") == "%H%%%M"
    with pytest.raises(ToolError, match="'E' in the date format 'E dd' is not supported"):
        strftime_of("E dd")
