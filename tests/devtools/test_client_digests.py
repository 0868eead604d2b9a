"""The digests of seeds, in processes whose strings hash otherwise."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from devtools.pages.source import ROOT

PROGRAM = """
import asyncio
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from understudy.testing import simulated

async def bill(bootstrap, billed):
    async with AIOKafkaConsumer("orders", bootstrap_servers=bootstrap, group_id="billing",
                                auto_offset_reset="earliest") as consumer:
        async for record in consumer:
            billed.append(record.value)

@simulated(minutes=0.2)
async def test_billing(cluster):
    await cluster.create_topic("orders", partitions=3, replication_factor=3)
    billed = []
    cluster.start(bill, cluster.bootstrap, billed)
    async with AIOKafkaProducer(bootstrap_servers=cluster.bootstrap, acks="all") as producer:
        for number in range(20):
            await producer.send_and_wait("orders", b"%d" % number)
            await asyncio.sleep(0.5)
    assert cluster.seed != 2

def helper():
    pass
"""


def digests(folder: Path, test: str, *options: str, hash_seed: str = "0") -> subprocess.CompletedProcess[str]:
    (folder / "billing.py").write_text(PROGRAM)
    return subprocess.run(
        [sys.executable, "-m", "devtools.client_digests", str(folder / test), *options],
        cwd=ROOT,
        env=os.environ | {"PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_a_seed_has_the_same_digest_whatever_strings_hash_by(tmp_path: Path) -> None:
    """Also the seeds after one that fails are run. The order of aiokafka's sets follows from the hashes."""
    shown = [digests(tmp_path, "billing.py:test_billing", "--seeds", "4", hash_seed=seed).stdout for seed in ("1", "2")]
    assert shown[0] == shown[1]
    lines = [line.split() for line in shown[0].splitlines()]
    assert [(line[0], line[1]) for line in lines] == [("0", "passes"), ("1", "passes"), ("2", "fails"), ("3", "passes")]
    assert len({line[2] for line in lines}) == 4


def test_a_seed_has_the_same_digest_whether_it_is_the_first_of_its_worker(tmp_path: Path) -> None:
    """The first run of a worker loads codecs and modules, which the worker then has for the others."""
    alone = digests(tmp_path, "billing.py:test_billing", "--first", "3", "--seeds", "1", "--workers", "1")
    after = digests(tmp_path, "billing.py:test_billing", "--seeds", "4", "--workers", "1")
    assert alone.stdout
    assert after.stdout.endswith(alone.stdout)


@pytest.mark.parametrize("test", ["billing.py:helper", "billing.py:nothing"])
def test_a_name_that_is_no_simulated_test_is_an_error(tmp_path: Path, test: str) -> None:
    ended = digests(tmp_path, test)
    assert ended.returncode != 0
    assert test.partition(":")[2] in ended.stderr
