"""Our answers with an error beside those that Kafka 3.9.1's request classes make of the same requests.

Slow, because it compiles and runs Java; it alone compares the levels of the codes with Kafka's.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from devtools.judges.java_program import answers_of
from tests.foundation.wire.sample_requests import EVERY_VERSION, sample_request
from understudy.clusters.processes.kafka_jars import NotFetched
from understudy.foundation.cluster.errors import Errors
from understudy.foundation.wire.codec import decode, encode
from understudy.foundation.wire.error_answers import error_answer, with_throttle_time
from understudy.foundation.wire.registry import Api
from understudy.foundation.wire.schema import Message

THROTTLE_MS = 7

DIFFERENCES = {
    "Fetch": "our broker's handler answers, for each partition; Kafka's class refuses the session",
    "OffsetFetch": "Kafka's class has the topics in the order of a hash, and no code for a partition from version 2 on",
    "DescribeLogDirs": "our broker's handler answers with its log directory; Kafka's class has no code up to version 2",
    "ElectLeaders": "Kafka's class has the code at both levels; Kafka's controller, as ours, for each partition",
    "AlterPartitionReassignments": "Kafka's class has the code at both levels; Kafka's broker, as ours, at one",
    "ListPartitionReassignments": "Kafka's class repeats the partitions, which have no codes",
    "AddPartitionsToTxn": "ours has errors of a partition for each partition, as Kafka's broker has",
    "CreateDelegationToken": "Kafka's class has the values of an unknown token",
    "DescribeUserScramCredentials": "Kafka's class repeats the code for users without names",
    "OffsetDelete": "Kafka's class never has a code for a partition; Kafka's coordinator has",
}
"""APIs whose answers differ, with the reason."""
UNCOUNTED = frozenset({"DescribeUserScramCredentials"})
"""APIs of whose answers Kafka's class counts no error of the whole."""


@pytest.mark.interop
@pytest.mark.parametrize("error", [Errors.NOT_CONTROLLER, Errors.NOT_LEADER_OR_FOLLOWER], ids=lambda each: each.name)
def test_answers_with_an_error_are_those_of_kafka(error: Errors, tmp_path: Path) -> None:
    ours = [(api, version, answer_of(api, version, error)) for api, version in EVERY_VERSION]
    lines = [
        f"{api.key} {version} {error.value} {THROTTLE_MS} {encode(sample_request(api, version), version).hex()} "
        f"{answer.hex()}"
        for api, version, answer in ours
    ]
    try:
        answers = answers_of("answers/ErrorAnswers.java", lines, tmp_path)
    except NotFetched as why:
        pytest.skip(str(why))
    different = set()
    for (api, version, answer), line in zip(ours, answers, strict=True):
        theirs, counted = line.split(" ")
        if api.name not in UNCOUNTED:
            assert error.name in counted.split(","), f"Kafka's class finds no {error.name} in {api.name} v{version}"
        bodies = (answer, bytes.fromhex(theirs))
        one, other = (without_words(decode(api.response, version, body)) for body in bodies)
        if one != other:
            different.add(api.name)
    assert different <= DIFFERENCES.keys()


def answer_of(api: Api, version: int, error: Errors) -> bytes:
    """Our answer to the sample request."""
    made = error_answer(api, version, sample_request(api, version), error, "")
    assert made is not None
    return encode(with_throttle_time(made.answer, version, THROTTLE_MS), version)


def without_words(answer: Message) -> str:
    """The answer without its messages, which Kafka has for some errors, and its throttle time, which Kafka's classes do
    not all set."""
    return re.sub(r"(error_message|throttle_time_ms)=('[^']*'|None|\d+)", "", repr(answer))
