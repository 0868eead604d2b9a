"""Parses the command line of `understudy producer-perf`, with the usage and the errors of Kafka's tool.

Kafka's tool uses argparse4j, unlike Kafka's other tools, which use joptsimple.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Sequence

from understudy.kafka_tools.argparse4j import ARGPARSE
from understudy.kafka_tools.errors import ToolError
from understudy.kafka_tools.options import Flag, Options

PAYLOADS = ("record-size", "payload-file", "payload-monotonic")
REQUIRED = ("topic", "num-records", "throughput")
NUMBERS = {"num-records": "Long", "record-size": "Integer", "transaction-duration-ms": "Long", "throughput": "Double"}
"""Java's types of the flags that are numbers."""
USAGE = """\
usage: producer-performance [-h] --topic TOPIC --num-records NUM-RECORDS
                            [--payload-delimiter PAYLOAD-DELIMITER]
                            --throughput THROUGHPUT
                            [--producer-props PROP-NAME=PROP-VALUE [PROP-NAME=PROP-VALUE ...]]
                            [--producer.config CONFIG-FILE]
                            [--print-metrics]
                            [--transactional-id TRANSACTIONAL-ID]
                            [--transaction-duration-ms TRANSACTION-DURATION]
                            (--record-size RECORD-SIZE |
                            --payload-file PAYLOAD-FILE |
                            --payload-monotonic)
"""

FLAGS = (
    Flag("topic", "The topic.", "TOPIC"),
    Flag("num-records", "How many records to send.", "COUNT"),
    Flag("record-size", "The size of each record in bytes.", "BYTES"),
    Flag("payload-file", "Take the records from the parts of a text file, at random.", "FILE"),
    Flag("payload-monotonic", "Send the numbers 0, 1, 2 …"),
    Flag("payload-delimiter", "The regular expression between the parts of the file; a newline by default.", "PATTERN"),
    Flag("throughput", "Send at most this number of records a second; -1 for no limit.", "NUMBER"),
    Flag("producer-props", "The producer's properties, bootstrap.servers among them.", "NAME=VALUE …"),
    Flag("producer.config", "A file of such properties.", "FILE"),
    Flag("print-metrics", "Not supported."),
    Flag("transactional-id", "Ignored without transactions.", "ID"),
    Flag("transaction-duration-ms", "Only 0: transactions are not supported.", "MS"),
)


def parse(words: Sequence[str]) -> Options:
    """Return the flags of a command line, with a value for each property. Raises ToolError of the class ARGPARSE."""
    known = {flag.name: flag for flag in FLAGS}
    given: dict[str, str] = {}
    properties: list[str] = []
    left = deque(words)
    while left:
        word = left.popleft()
        name, equals, value = word.removeprefix("--").partition("=")
        if not word.startswith("--") or name not in known:
            raise _wrong(f"unrecognized arguments: '{word}'")
        if name == "producer-props":
            properties = [value] if equals else []
            while left and not left[0].startswith("--"):
                properties.append(left.popleft())
            if not properties:
                raise _wrong("argument --producer-props: expected at least one argument")
        elif not known[name].value:
            _check_alone(name, given)
            given[name] = ""
        else:
            if not equals and (not left or _is_flag(left[0])):
                raise _wrong(f"argument --{name}: expected one argument")
            text = value if equals else left.popleft()
            _check_alone(name, given)
            _check_number(name, text)
            given[name] = text
    for name in REQUIRED:
        if name not in given:
            raise _wrong(f"argument --{name} is required")
    if not any(name in given for name in PAYLOADS):
        raise _wrong(f"one of the arguments {' '.join(f'--{name}' for name in PAYLOADS)} is required")
    if not properties and "producer.config" not in given:
        raise _wrong("Either --producer-props or --producer.config must be specified.")
    return Options([*given.items(), *(("producer-props", each) for each in properties)])


def _is_flag(word: str) -> bool:
    return word.startswith("-") and not re.fullmatch(r"-\d+(\.\d+)?", word)


def _check_alone(name: str, given: dict[str, str]) -> None:
    other = next((each for each in PAYLOADS if each in given and each != name), None)
    if name in PAYLOADS and other is not None:
        raise _wrong(f"argument --{name}: not allowed with argument --{other}")


def _check_number(name: str, text: str) -> None:
    kind = NUMBERS.get(name)
    pattern = r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?" if kind == "Double" else r"[+-]?\d+"
    if kind is not None and not re.fullmatch(pattern, text):
        raise _wrong(f"argument --{name}: could not convert '{text}' to {kind} (For input string: \"{text}\")")


def _wrong(message: str) -> ToolError:
    return ToolError(ARGPARSE, message)
