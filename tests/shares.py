"""The shares of searches: how much of each one a usual run of the tests takes, and what `make nightly` takes.

A search finds more the longer it runs, but its first part also makes each assertion. CONTRIBUTING.md lists the
searches; a test compares its table with this one.
"""

from __future__ import annotations

import os
from typing import NamedTuple

import pytest


class Share(NamedTuple):
    """How many cases of a search are tried.

    Attributes:
        usual: the number in `make test-all` and `.ci/run`.
        whole: the number in `make nightly`, which sets NIGHTLY=1.
        reason: why the usual number is enough for a change.
    """

    usual: int
    whole: int
    reason: str


SHARES = {
    "seeds": Share(20, 200, "the histories of `make seeds` and the ledger are other ones each time"),
    "crash-points": Share(1, 3, "of each three points of a procedure; the points of most procedures are the same"),
    "lake-crashes": Share(1, 3, "of three places at which a change of a lake may end; a killed process ends at two"),
    "incomplete-logs": Share(1, 40, "each file of a run is removed, and dozens are cut at a place drawn by the seed"),
    "hand-made-znodes": Share(50, 400, "ten seeds more are quick tests; each writes dozens of znodes of every kind"),
    "codec-values": Share(3, 12, "each of some ten versions of each message has as many, of the same fields"),
    "mutated-frames": Share(20_000, 100_000, "a frame of every message is mutated several times"),
    "durability-rounds": Share(9, 27, "each of three faults against each of three roles once"),
    "own-clocks": Share(2, 200, "each seed has thousands of times and dozens of figures to compare"),
    "clock-rounds": Share(0, 50, "seeds whose brokers have clocks of their own are compared each time"),
    "compose-shapes": Share(2, 14, "one has old ZooKeeper's variables, one KRaft's; the rest differ in variables"),
    "older-tools": Share(
        0, 4, "the newest tools run all scripts; an older release sends older versions of the same requests"
    ),
    "incomplete-runs": Share(1, 5, "each file of a seed loses one part; which part is drawn"),
    "example-programs": Share(1, 20, "each program fails over once; its own number of seeds is for its user"),
    "golden-seeds": Share(1, 3, "a seed changes the order of answers, which the first one and two have done already"),
    "golden-tools": Share(3, 9, "the others use the same tools, and the simulator runs all scenarios"),
    "our-tools-with-kafka": Share(3, 18, "with brokers of ours they run all scripts, and so do Apache's tools"),
    "golden-processes": Share(5, 13, "`make interop` runs others with Apache's tools, the simulator all of them"),
    "recordings": Share(1, 4, "Kafka 3.9.1 stays as it is; the recorder is checked by any of them"),
    "zookeeper-versions": Share(
        1, 3, "3.4 lacks most of what our brokers use; the contracts are tested with each version"
    ),
    "lesson-steps": Share(4, 21, "with the four that are made anew, these show every kind of part"),
    "lessons-made-anew": Share(4, 20, "most recorded ones are judged; these find their moments anew"),
    "lesson-sizes": Share(2, 4, "a small laptop and a phone have the least room; the others are between or larger"),
    "folds": Share(3, 25, "each has hundreds of records in an order of its own; stories and samples have every type"),
    "compaction-ends": Share(8, 24, "each seed ends thirty times within a compaction, in each of four settings"),
    "faults-on-processes": Share(1, 6, "the simulator has each fault; this one is of a disk"),
    "experiments-on-processes": Share(0, 4, "the simulator runs all of them, and `kill-controller` runs on processes"),
    "client-examples": Share(0, 2, "`make interop` runs such a suite in Go"),
    "spark-clusters": Share(
        0, 3, "a replay loses a worker of a standalone cluster in each run; here other jobs do, and YARN"
    ),
    "random-runs": Share(6, 25, "each has hundreds of records in an order of its own; the other runs have all tables"),
    "sql-of-lakes": Share(
        0, 1, "the replay's tests compare the same tables of more runs, from a lake that one process has written"
    ),
    "handovers": Share(4, 10, "a controller of each kind ends in each of two ways"),
    "kraft-clusters": Share(0, 4, "samples of two such clusters are held against what Kafka printed of them"),
    "kafka-sweeps": Share(0, 3, "usual tests sweep clusters that are no processes, and import Kafka's logs"),
    "stored-versions": Share(
        0, 1, "a lake in a bucket is written, changed and read in each run; versions are tested on this machine"
    ),
}


def only_nightly(search: str) -> pytest.MarkDecorator:
    """Mark a test of a search whose usual share is nothing: it is skipped unless NIGHTLY=1."""
    assert SHARES[search].usual == 0
    return at_night(SHARES[search].reason)


def at_night(reason: str) -> pytest.MarkDecorator:
    """Mark a test that repeats at a higher price what tests of each usual run see: it is skipped unless NIGHTLY=1.

    Args:
        reason: what these tests are.
    """
    return pytest.mark.skipif(not _is_nightly(), reason=f"`make nightly` runs it: {reason}")


def share_of(search: str) -> int:
    """Return how many cases of a search this run tries."""
    share = SHARES[search]
    return share.whole if _is_nightly() else share.usual


def _is_nightly() -> bool:
    return os.environ.get("NIGHTLY") == "1"
