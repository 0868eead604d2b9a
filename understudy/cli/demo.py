"""`understudy demo`: a cluster loses its controller, twice, and Spark reports on that very run.

Act one kills the controller with SIGKILL. Act two is crueller: the controller is stopped at a named point, after a
fenced write and before its requests go out, sleeps past its session, and on waking sends the orders of a dead epoch.

The demo asserts what it shows: it ends with exit code 0 only if each scene really happened.
"""

from __future__ import annotations

import argparse
import contextlib
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from understudy.cli.arguments import BadInput, Failed, Verbs
from understudy.cli.stage import Stage, StoryBroken
from understudy.cli.up import RUNS

if TYPE_CHECKING:
    from foundation.eventlog.records import Envelope, FenceHit
    from understudy.admin_client import AdminClient
    from understudy.findings import Findings
    from understudy.picture import ClusterPicture
    from understudy.testbed.local_cluster import LocalCluster

T = TypeVar("T")

TOPIC, SECOND_TOPIC = "orders", "payments"
POINT = "partition.after_write"
PATIENCE_S = 60.0


def register(verbs: Verbs) -> None:
    verb = verbs.add_parser(
        "demo",
        help="kill the controller of a real cluster and watch another take over",
        description="Starts ZooKeeper and three brokers, kills the controller, lets a paused one wake up as a zombie, "
        "and ends with Spark's report of that run. Exit code 0 only if the story really happened.",
    )
    verb.add_argument("--fast", action="store_true", help="shorter sessions and fewer partitions")
    verb.add_argument(
        "--dir", type=Path, metavar="RUN", help="keep the run folder here (default: a new one under ./runs)"
    )
    verb.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    from foundation.cluster.errors import ApiError
    from understudy.admin_client import NoBrokerAnswers
    from understudy.cluster import ClusterError
    from understudy.java import JavaNotFound
    from understudy.replay.gateway import GatewayFailed
    from understudy.testbed.cluster_view import NO_ANSWER
    from understudy.testbed.embedded_zookeeper import ZooKeeperNotStarted
    from understudy.testbed.local_cluster import LocalCluster

    # A shell that starts us in the background has SIGINT ignored; Ctrl-C must end the story all the same.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    stage = Stage()
    partitions, session_ms = (6, 2_500) if options.fast else (24, 3_000)
    folder = _unused_folder(options.dir)
    try:
        stage.scene("The cast")
        with LocalCluster(brokers=3, directory=folder, session_timeout_ms=session_ms) as cluster:
            play = Play(stage, cluster, partitions)
            play.opening()
            play.the_lead_falls()
            play.the_return()
            play.the_zombie()
            cluster.stop()
        play.curtain(folder)
    except (JavaNotFound, ZooKeeperNotStarted) as missing:
        raise Failed(str(missing)) from None
    except (ApiError, ClusterError, GatewayFailed, NoBrokerAnswers, OSError, StoryBroken, *NO_ANSWER) as broken:
        stage.bad(f"The story did not happen: {broken}")
        stage.show(f"Everything it left is in {folder}")
        return 1
    return 0


class Play:
    """The scenes, in order. Each raises `StoryBroken` or `ClusterError` where it does not happen."""

    def __init__(self, stage: Stage, cluster: LocalCluster, partitions: int) -> None:
        self._stage = stage
        self._cluster = cluster
        self._partitions = partitions
        self._epochs: list[int] = []

    def opening(self) -> None:
        """A cluster, a controller, a topic."""
        picture = self._cluster.view.picture()
        self._epochs.append(picture.controller_epoch)
        self._stage.tell(
            f"ZooKeeper and brokers {_listed(picture.brokers)} are up; broker {picture.controller} "
            "is controller, epoch 1"
        )
        _ask(self._client().create_topic(TOPIC, partitions=self._partitions, replication_factor=3))
        self._stage.tell(f"topic {TOPIC} created over Kafka's protocol: {self._partitions} partitions × 3 replicas")
        self._show_leaders(self._when(lambda found: found.is_well, "every partition has its preferred leader"))

    def the_lead_falls(self) -> None:
        """SIGKILL, another takes over, every partition has a live leader."""
        self._stage.scene("Act one: the lead falls")
        controller = self._cluster.controller()
        controller.kill()
        struck = time.monotonic()
        self._stage.tell(f"SIGKILL to broker {controller.id}, the controller", since=struck)
        successor = self._successor(controller.id)
        self._stage.tell(f"broker {successor} is controller, epoch {self._epochs[-1]}", since=struck)
        picture = self._when(lambda found: not found.leaderless, "every partition has a live leader")
        self._stage.tell(f"all {self._partitions} partitions have a live leader again", since=struck)
        self._show_leaders(picture)

    def the_return(self) -> None:
        """The dead broker returns, rejoins every ISR, and gets its partitions back."""
        dead = next(broker for broker in self._cluster.brokers if not broker.is_running)
        dead.start()
        self._stage.tell(f"broker {dead.id} returns")
        self._when(lambda found: not found.under_replicated, f"broker {dead.id} is in every ISR again")
        self._stage.tell(f"broker {dead.id} is in sync everywhere: its leaders asked for it by AlterPartition")
        results = _ask(self._client().elect_leaders())
        moved = sum(code == 0 for code in results.values())
        picture = self._when(lambda found: found.is_well, "leadership is back at the preferred replicas")
        self._stage.tell(f"preferred leader election: {moved} partitions moved back")
        self._show_leaders(picture)

    def the_zombie(self) -> None:
        """Paused between its write and its orders, past its session; on waking its orders are of a dead epoch."""
        self._stage.scene("Act two: the lead comes back as a ghost")
        ghost = self._cluster.controller()
        ghost.arm(POINT, "pause")
        asleep_epoch = self._epochs[-1]
        with contextlib.suppress(Exception):
            # Nobody answers this: the one who should is stopped halfway through it.
            _ask(self._client(timeout_ms=1_000).create_topic(SECOND_TOPIC, partitions=3, replication_factor=3))
        self._stage.wait(
            lambda: not ghost.process.armed(), f"broker {ghost.id} is stopped at {POINT}", timeout_s=PATIENCE_S
        )
        struck = time.monotonic()
        self._stage.tell(f"broker {ghost.id}, controller of epoch {asleep_epoch}, stopped at {POINT}", since=struck)
        self._stage.show(f"the states of {SECOND_TOPIC} are in ZooKeeper, no broker has been told")
        successor = self._successor(ghost.id)
        self._stage.tell(
            f"its session is over: broker {successor} is controller, epoch {self._epochs[-1]}", since=struck
        )
        self._when(lambda found: not found.leaderless, "every partition has a live leader")
        ghost.resume()
        struck = time.monotonic()
        self._stage.tell(f"broker {ghost.id} wakes up and goes on as if nothing had happened", since=struck)
        others = sorted(broker.id for broker in self._cluster.brokers if broker.id != ghost.id)
        refusals = self._stage.wait(
            lambda: self._refusals(others, asleep_epoch),
            f"brokers {_listed(others)} refuse its orders",
            timeout_s=PATIENCE_S,
        )
        for node, hit in refusals:
            self._stage.tell(f"{node} refuses {hit.what}: epoch {hit.offered}, it knows {hit.known}", since=struck)
        self._when(lambda found: not found.under_replicated, f"broker {ghost.id} has registered again and is in sync")
        self._stage.tell(f"broker {ghost.id} has noticed, resigned, registered again and follows", since=struck)

    def curtain(self, folder: Path) -> None:
        """Spark's report of this very run; it has to tell the same story."""
        from understudy.cli.check import check_run_folder
        from understudy.java import choose_java
        from understudy.replay.report import render
        from understudy.replay.spark_job import replay

        self._stage.scene("Curtain: what the event logs say, by Spark")
        with self._stage.activity() as activity:
            result = replay([folder], java=choose_java(), progress=activity.step)
        self._stage.print(render(result))
        if result.findings:
            raise StoryBroken(f"the event logs are not whole: {result.findings[0]}")
        (metrics,) = result.runs
        losses = [failover.cause for failover in metrics.failovers]
        if losses[:2] != ["kill", "pause"]:
            raise StoryBroken(f"the logs tell of controllers lost by {losses}; expected kill, then pause")
        with self._stage.activity() as activity:
            activity.step("checking the invariants")
            verdict = check_run_folder(folder)
        if verdict.violations:
            raise StoryBroken(f"an invariant was violated: {verdict.violations[0]}")
        checks = sum(len(family.ids) for family in verdict.families)
        self._stage.print(
            f"Invariants: all {checks} hold over {verdict.records:,} records and {verdict.transactions:,} transactions"
        )
        self._stage.good(f"The story happened as told. Everything it left is in {folder}")

    # -- what the scenes look at

    def _client(self, timeout_ms: int = 15_000) -> AdminClient:
        from brokers.machine.socket_network import SocketNetwork
        from understudy.admin_client import AdminClient

        bootstrap = [broker.address for broker in self._cluster.brokers if broker.is_running]
        return AdminClient(SocketNetwork(), bootstrap, timeout_ms=timeout_ms)

    def _when(self, holds: Callable[[Findings], bool], what: str) -> ClusterPicture:
        """Wait until what the partitions lack is as `holds` wants it; the picture it was found in."""
        from understudy.findings import findings

        def found() -> ClusterPicture | None:
            self._cluster.check()
            picture = self._cluster.view.picture()
            return picture if picture.partitions and holds(findings(picture)) else None

        return self._stage.wait(found, what, timeout_s=PATIENCE_S)

    def _successor(self, fallen: int) -> int:
        """Wait for a controller other than `fallen`, of a higher epoch."""

        def successor() -> ClusterPicture | None:
            picture = self._cluster.view.picture()
            return (
                picture
                if picture.controller not in (None, fallen) and picture.controller_epoch > self._epochs[-1]
                else None
            )

        picture = self._stage.wait(
            successor, f"ZooKeeper ends broker {fallen}'s session, another takes over", timeout_s=PATIENCE_S
        )
        if picture.controller_epoch != self._epochs[-1] + 1:
            raise StoryBroken(
                f"the epoch went from {self._epochs[-1]} to {picture.controller_epoch}; exactly one "
                "election was expected"
            )
        self._epochs.append(picture.controller_epoch)
        assert picture.controller is not None
        return picture.controller

    def _refusals(self, brokers: list[int], epoch: int) -> list[tuple[str, FenceHit]] | None:
        """One refusal of an order of `epoch` by each of `brokers`, from their event logs; None until all have
        refused."""
        found: dict[str, FenceHit] = {}
        for record in self._records():
            hit = _refusal(record, epoch)
            if hit is not None:
                found.setdefault(record.node, hit)
        wanted = {f"broker-{broker}" for broker in brokers}
        return sorted(found.items()) if wanted <= set(found) else None

    def _records(self) -> tuple[Envelope, ...]:
        from foundation.eventlog.reader import read

        return read([self._cluster.directory]).records

    def _show_leaders(self, picture: ClusterPicture) -> None:
        led = Counter(
            partition.state.leader_and_isr.leader for partition in picture.partitions.values() if partition.state
        )
        width = 30 / max(1, len(picture.partitions))
        bars = (f"{broker} {'█' * max(1, round(led[broker] * width))} {led[broker]}" for broker in sorted(led))
        self._stage.show(f"leaders   {'   '.join(bars)}")


def _refusal(record: Envelope, epoch: int) -> FenceHit | None:
    from foundation.eventlog.fences import Fence
    from foundation.eventlog.records import FenceHit

    hit = record.data
    if isinstance(hit, FenceHit) and hit.fence == Fence.BROKER_CONTROLLER_EPOCH.value and hit.offered == epoch:
        return hit
    return None


def _ask(question: Coroutine[Any, Any, T]) -> T:
    import asyncio

    return asyncio.run(question)


def _listed(ids: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(ids)))


def _unused_folder(wanted: Path | None) -> Path:
    """The story begins with an empty cluster, and its report is of one run.

    Raises:
        BadInput: there is something in `wanted`, or nowhere to make a folder.
    """
    try:
        if wanted is None:
            RUNS.mkdir(exist_ok=True)
            return Path(tempfile.mkdtemp(prefix=time.strftime("demo-%H%M%S-", time.localtime()), dir=RUNS))
        if wanted.exists() and any(wanted.iterdir()):
            raise BadInput(f"--dir {wanted}: there is something in it; the demo wants a new folder")
    except OSError as error:
        where = RUNS.absolute() if wanted is None else wanted
        raise BadInput(f"{where} cannot be a folder for the run: {error.strerror}; give another by --dir") from None
    return wanted
