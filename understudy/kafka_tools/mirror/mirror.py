"""`Mirror` runs a copy: it reads from every leader of the source, and appends at every leader of the target.

One loop starts what can be done and waits until something has ended. There is at most one request to each leader, so
records of a partition stay in order. `MirrorSettings.buffer_bytes` bounds the records read and not yet acknowledged.
Mirrors `MirrorSourceTask`.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Callable, Coroutine, Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from understudy.clusters.clients.admin_client import AdminClient
from understudy.clusters.clients.cluster_requests import NoBrokerAnswers
from understudy.clusters.clients.connections import Connections, NoLeader
from understudy.foundation.cluster.errors import Errors, error_name
from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.foundation.eventlog.clock import Clock
from understudy.foundation.wire.messages.list_offsets import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from understudy.foundation.wire.network import Network
from understudy.kafka_tools.cluster import KafkaCluster
from understudy.kafka_tools.errors import ToolError
from understudy.kafka_tools.mirror.copies import PartitionCopy
from understudy.kafka_tools.mirror.errors import MirrorError
from understudy.kafka_tools.mirror.groups import translate_groups
from understudy.kafka_tools.mirror.progress import MirrorProgress, Saved, Writer
from understudy.kafka_tools.mirror.topics import Selection, TopicCopy, find_copies, make_copies, make_progress_topic
from understudy.kafka_tools.mirror.transfer import FAILURES, REQUEST_BYTES, Appender, Reader, check_writer
from understudy.kafka_tools.offsets import list_offsets

CLIENT_ID: Final = "understudy-mirror"
WAIT_MS: Final = 250
"""Milliseconds that a leader waits for records if none are known to be there."""
SHORT_WAIT_MS: Final = 20
"""Milliseconds that a leader waits while another of its partitions cannot be read."""
CHECKPOINT_MS: Final = 2_000
LOCATE_AGAIN_MS: Final = 500
REPEATS: Final = 3
"""Number of looks at the target's end, without an acknowledged batch, after which another producer continues."""
TICK_S: Final = 0.2
API_TIMEOUT_MS: Final = 15_000


@dataclass(frozen=True)
class MirrorSettings:
    """The settings of a mirror.

    Attributes:
        source, target: `host:port` of brokers.
        groups: a pattern of whole names; None to translate no offsets.
        is_once: whether to end when everything is copied that was there at the beginning.
        buffer_bytes: the maximum size of all records that are read and not yet acknowledged.
        bytes_per_s: the maximum rate of reading; None for no limit.
    """

    source: Sequence[str]
    target: Sequence[str]
    selection: Selection
    groups: re.Pattern[str] | None = None
    is_once: bool = False
    replication_factor: int | None = None
    buffer_bytes: int = 64 << 20
    bytes_per_s: float | None = None
    report_ms: int = 5_000
    refresh_ms: int = 30_000
    groups_ms: int = 10_000


class Mirror:
    """One run of a mirror.

    Args:
        report: prints a line.

    Attributes:
        copies: the partitions that are copied, by partition of the source.
    """

    def __init__(self, network: Network, clock: Clock, settings: MirrorSettings, report: Callable[[str], None]) -> None:
        self._clock = clock
        self._settings = settings
        self._report = report
        self._admin = AdminClient(network, settings.target, client_id=CLIENT_ID)
        self._source_cluster = _cluster(network, settings.source)
        self._target_cluster = _cluster(network, settings.target)
        self._from, self._to, self._for_progress, self._for_checks = (
            Connections(network, servers, client_id=CLIENT_ID, timeout_ms=API_TIMEOUT_MS)
            for servers in (settings.source, settings.target, settings.target, settings.target)
        )
        self._reader = Reader(self._from, self._ask_for_refresh)
        self._appender = Appender(self._to, self._ask_for_refresh)
        self._is_same_cluster = False
        self._progress: MirrorProgress | None = None
        self._saved: dict[tuple[TopicPartition, TopicPartition], Saved] = {}
        self._producer: tuple[int, int] | None = None
        self.copies: dict[TopicPartition, PartitionCopy] = {}
        self._tasks: dict[Hashable, asyncio.Task[None]] = {}
        self._due_ms: dict[str, float] = {}
        self._began_ms = clock.monotonic_ms()
        self._read_bytes = 0
        self._first_read_ms: float | None = None
        self._last_append_ms = self._began_ms
        self._reported = (self._began_ms, 0)

    @property
    def copying_ms(self) -> float:
        """Milliseconds from the first read that brought records to the last acknowledgement."""
        return 0.0 if self._first_read_ms is None else self._last_append_ms - self._first_read_ms

    # ------------------------------------------------------------------ from outside

    async def plan(self) -> list[TopicCopy]:
        """Return the topics that would be copied, and change nothing. Raises MirrorError and ToolError."""
        source, target = await self._source_cluster.metadata(()), await self._target_cluster.metadata(())
        self._is_same_cluster = source.cluster_id is not None and source.cluster_id == target.cluster_id
        return await self._find()

    async def run(self) -> bool:
        """Copy until everything is copied (`is_once`) or for ever; return whether no partition has failed.

        Raises:
            MirrorError: the mirror cannot begin, or cannot keep its progress.
            ToolError, NoBrokerAnswers: a cluster does not answer.
        """
        source = await self._source_cluster.metadata(())
        copies = await self.plan()
        if not copies:
            raise MirrorError(
                f"the source has no topic that --include {self._settings.selection.include.pattern} names"
            )
        target = await self._target_cluster.metadata(())
        await make_progress_topic(self._admin, len(target.brokers))
        self._progress = MirrorProgress(self._for_progress, self._clock, source.cluster_id or "")
        self._saved = await self._progress.load()
        await self._take_over(copies)
        try:
            await self._pump()
            if self._settings.is_once:
                await self._finish()
        finally:
            await self.aclose()
        return not any(copy.failed for copy in self.copies.values())

    # ------------------------------------------------------------------ the loop

    async def _pump(self) -> None:
        while True:
            self._start_chores()
            self._start_reads()
            self._start_appends()
            self._tell_ends()
            if all(copy.has_caught_up for copy in self.copies.values()) and self._settings.is_once:
                return
            if self.copies and all(copy.ended is not None and copy.failed for copy in self.copies.values()):
                return
            done: set[asyncio.Task[None]] = set()
            if self._tasks:
                done, _ = await asyncio.wait(self._tasks.values(), timeout=TICK_S, return_when=asyncio.FIRST_COMPLETED)
            else:
                await asyncio.sleep(TICK_S)
            for key in [key for key, task in self._tasks.items() if task in done]:
                self._tasks.pop(key).result()
            if self._is_due("report", self._settings.report_ms):
                self.report_progress()

    def _start(self, key: Hashable, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        if key not in self._tasks:
            self._tasks[key] = asyncio.ensure_future(work())

    def _start_reads(self) -> None:
        room = self._settings.buffer_bytes - sum(copy.held_bytes for copy in self.copies.values())
        reading = sum(isinstance(key, tuple) and key[0] == "read" for key in self._tasks)
        room -= reading * REQUEST_BYTES
        for leader, copies in self._by_leader(self._from, lambda copy: copy.source).items():
            if ("read", leader) in self._tasks or room <= 0 or self._is_too_fast():
                continue
            ready = [copy for copy in copies if not copy.is_doubtful and copy.has_room]
            ready.sort(key=lambda copy: copy.read_turn)
            if ready:
                self._start(("read", leader), partial(self._read, leader, ready, _wait_ms(ready, copies)))
                room -= REQUEST_BYTES

    async def _read(self, leader: int, copies: Sequence[PartitionCopy], wait_ms: int) -> None:
        began_ms = self._clock.monotonic_ms()
        taken = await self._reader.read(leader, copies, max_bytes=REQUEST_BYTES, wait_ms=wait_ms)
        self._read_bytes += taken
        if taken and self._first_read_ms is None:
            self._first_read_ms = began_ms

    async def _append(self, leader: int, copies: Sequence[PartitionCopy]) -> None:
        await self._appender.append(leader, copies)
        self._last_append_ms = self._clock.monotonic_ms()

    def _start_appends(self) -> None:
        for leader, copies in self._by_leader(self._to, lambda copy: copy.target).items():
            ready = [copy for copy in copies if copy.front is not None]
            if ready:
                ready.sort(key=lambda copy: copy.append_turn)
                self._start(("append", leader), partial(self._append, leader, ready))

    def _by_leader(
        self, connections: Connections, side: Callable[[PartitionCopy], TopicPartition]
    ) -> dict[int, list[PartitionCopy]]:
        found: dict[int, list[PartitionCopy]] = {}
        for copy in self.copies.values():
            if copy.is_active and (leader := connections.known_leader(side(copy))) is not None:
                found.setdefault(leader, []).append(copy)
        return found

    # ------------------------------------------------------------------ beside the records

    def _start_chores(self) -> None:
        active = [copy for copy in self.copies.values() if copy.ended is None]
        for connections, partitions in (
            (self._from, [copy.source for copy in active]),
            (self._to, [copy.target for copy in active]),
        ):
            if topics := {each.topic for each in partitions if connections.known_leader(each) is None}:
                self._start(connections, partial(_find_leaders, connections, topics))
        checkpoint = self._is_due("checkpoint", CHECKPOINT_MS)
        unsaved = [
            copy
            for copy in self.copies.values()
            if copy.is_active and (not copy.is_planned or (checkpoint and copy.is_changed))
        ]
        if unsaved:
            self._start("save", partial(self._save, unsaved))
        lost = [copy for copy in self.copies.values() if _is_lost(copy)]
        if lost and "clusters" not in self._tasks and self._is_due("locate", LOCATE_AGAIN_MS):
            self._start("clusters", partial(self._locate, lost))
        if "clusters" not in self._tasks and self._is_due("refresh", self._settings.refresh_ms):
            self._start("clusters", self._refresh)
        may_translate = self._settings.groups is not None and "clusters" not in self._tasks
        if may_translate and self._is_due("groups", self._settings.groups_ms):
            self._start("clusters", self._translate_groups)

    async def _save(self, copies: Iterable[PartitionCopy]) -> None:
        assert self._progress is not None
        taken = {copy: copy.to_save() for copy in copies}
        for copy in taken:
            copy.is_changed = False
        try:
            await self._progress.save({(copy.source, copy.target): saved for copy, saved in taken.items()})
        except MirrorError as error:
            self._report(f"{error}; it is tried again")
            return
        for copy, saved in taken.items():
            self._saved[copy.source, copy.target] = saved
            # What was read meanwhile may have added to the map.
            copy.is_planned = copy.is_planned or (copy.map.runs == saved.runs and copy.writer == saved.writer)

    async def _locate(self, copies: Sequence[PartitionCopy]) -> None:
        """Find the ends of the target's logs, and from these the positions in the source."""
        try:
            await self._look_at_ends(copies)
        except ToolError as error:
            self._report(f"the ends of logs are not known, which is tried again: {error.shown_message}")

    async def _look_at_ends(self, copies: Sequence[PartitionCopy]) -> None:
        targets = {copy.target: copy for copy in copies}
        sources = {copy.source: copy for copy in copies}
        ends = await list_offsets(self._target_cluster, dict.fromkeys(targets, LATEST_TIMESTAMP))
        begins = await list_offsets(self._target_cluster, dict.fromkeys(targets, EARLIEST_TIMESTAMP))
        first = await list_offsets(self._source_cluster, dict.fromkeys(sources, EARLIEST_TIMESTAMP))
        last = await list_offsets(self._source_cluster, dict.fromkeys(sources, LATEST_TIMESTAMP))
        for copy in copies:
            found = ends[copy.target], begins[copy.target], first[copy.source], last[copy.source]
            if any(isinstance(each, ToolError) for each in found):
                self._ask_for_refresh()
            elif _is_lost(copy):
                end, begin, low, high = (each for each in found if isinstance(each, int))
                try:
                    await self._place(copy, end, begin, low, high)
                except MirrorError as error:
                    copy.stop(str(error), failed=True)
                except FAILURES:
                    pass  # it is tried again

    async def _place(self, copy: PartitionCopy, end: int, begin: int, low: int, high: int) -> None:
        """Place a copy.

        Args:
            end, begin: the target's end and first offset.
            low, high: the source's first offset and its end.
        """
        truncated_to = copy.truncated_to
        saved = self._saved.get((copy.source, copy.target))
        if copy.writer is None and saved is None:
            if end != begin:
                raise MirrorError(
                    f"the copy {copy.target} has {end - begin:,} records that this mirror has not written; delete the "
                    f"topic, give the copy another name with --rename or --prefix, or --exclude it"
                )
            copy.begin(Writer(*await self._producer_id(), end), low)
            return
        if copy.writer is None and saved is not None:
            if saved.topic_id != copy.topic_id:
                raise MirrorError(
                    f"{copy.source.topic} was deleted and created again at the source since it was copied; delete the "
                    f"copy {copy.target.topic}, or give the new one another name with --rename"
                )
            await check_writer(self._for_checks, copy.target, saved.writer, max(saved.confirmed, begin), end)
            copy.take_back(saved)
        if not copy.is_located:
            if not copy.resume(end, low):
                self._report(f"{copy.source}: the copy's position is known only roughly; records may be copied twice")
            if copy.repeats >= REPEATS:
                copy.replace_writer(Writer(*await self._producer_id(fresh=True), end))
        if truncated_to is not None and truncated_to < copy.position:
            high = min(high, truncated_to)
        if copy.position < low:
            self._report(
                f"{copy.source}: offsets {copy.position} to {low - 1} were deleted at the source before they were "
                f"copied; the copy continues without them"
            )
            copy.skip_to(low)
        elif copy.position > high:
            self._report(
                f"{copy.source}: the source has lost offsets {high} to {copy.position - 1} after they were copied; the "
                f"copy keeps them, and continues with what is at the source now"
            )
            copy.skip_to(high)
        copy.is_doubtful, copy.truncated_to = False, None

    async def _producer_id(self, *, fresh: bool = False) -> tuple[int, int]:
        if self._producer is None or fresh:
            answer = await self._target_cluster.init_producer_id()
            if answer.error_code != Errors.NONE:
                raise NoLeader(f"no producer id: {error_name(answer.error_code)}")
            self._producer = answer.producer_id, answer.producer_epoch
        return self._producer

    # ------------------------------------------------------------------ topics and groups

    async def _find(self) -> list[TopicCopy]:
        return await find_copies(
            self._source_cluster,
            self._target_cluster,
            self._settings.selection,
            replication_factor=self._settings.replication_factor,
            is_same_cluster=self._is_same_cluster,
        )

    async def _take_over(self, topics: Sequence[TopicCopy]) -> None:
        """Create, grow and configure the copies of the topics, and copy all their partitions."""
        await make_copies(self._admin, topics)
        for topic in topics:
            if topic.existing is None or topic.existing < topic.partitions or topic.changes:
                self._report(topic.in_words)
            for number in range(topic.partitions):
                source = TopicPartition(topic.topic, number)
                if source not in self.copies:
                    target = TopicPartition(topic.copy, number)
                    self.copies[source] = PartitionCopy(source, target, topic.topic_id)

    async def _refresh(self) -> None:
        """Look for topics that are new, have grown, or are gone."""
        try:
            await self._see_topics(await self._find())
        except (ToolError, NoBrokerAnswers, MirrorError) as error:
            self._report(f"topics were not looked at, which is tried again: {error}")

    async def _see_topics(self, topics: Sequence[TopicCopy]) -> None:
        found = {topic.topic: topic for topic in topics}
        for copy in self.copies.values():
            topic = found.get(copy.source.topic)
            if copy.ended is not None:
                continue
            if topic is None:
                copy.stop("the topic was deleted at the source; its copy stays as it is", failed=False)
            elif topic.topic_id != copy.topic_id:
                copy.stop(
                    "the topic was deleted and created again at the source; delete its copy and begin anew", failed=True
                )
            elif topic.existing is None:
                copy.stop("the copy was deleted at the target; begin again to copy all of it anew", failed=True)
                del found[copy.source.topic]
        gone = {copy.source.topic for copy in self.copies.values() if copy.ended is not None}
        await self._take_over([topic for topic in found.values() if topic.topic not in gone])

    async def _translate_groups(self) -> None:
        assert self._settings.groups is not None
        try:
            done = await translate_groups(
                self._source_cluster, self._target_cluster, self._settings.groups, self.copies
            )
        except ToolError as error:
            self._report(f"groups are translated later: {error.shown_message}")
            return
        for group, what in done.items():
            if self._due_ms.get(f"group {group} {what}") is None:
                self._due_ms[f"group {group} {what}"] = 0
                self._report(f"group {group}: {what}")

    def _ask_for_refresh(self) -> None:
        soon = self._clock.monotonic_ms() + LOCATE_AGAIN_MS
        self._due_ms["refresh"] = min(soon, self._due_ms.get("refresh", soon))

    # ------------------------------------------------------------------ ends and reports

    async def _end_tasks(self) -> None:
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        self._tasks.clear()

    async def _finish(self) -> None:
        await self._end_tasks()
        await self._save([copy for copy in self.copies.values() if copy.is_active])
        if self._settings.groups is not None:
            await self._translate_groups()
        self.report_progress()

    async def aclose(self) -> None:
        """End all tasks, and close all connections. `run` calls it at its end."""
        await self._end_tasks()
        for connections in (self._from, self._to, self._for_progress, self._for_checks):
            connections.close()
        for cluster in (self._source_cluster, self._target_cluster):
            await cluster.__aexit__()

    def report_progress(self) -> None:
        """Print the number of copied records, their rate, and the lag."""
        now_ms, copied = self._clock.monotonic_ms(), sum(copy.copied_bytes for copy in self.copies.values())
        before_ms, before = self._reported
        self._reported = now_ms, copied
        rate = (copied - before) / 1e6 / max(0.001, (now_ms - before_ms) / 1000)
        records = sum(copy.copied for copy in self.copies.values())
        active = [copy for copy in self.copies.values() if copy.ended is None]
        lag = sum(copy.lag for copy in active)
        line = f"copied {records:,} records, {copied / 1e6:,.1f} MB, {rate:.1f} MB/s; lag {lag:,} records"
        last = max(active, key=lambda copy: copy.lag, default=None)
        if last is not None and last.lag:
            line += f", most in {last.source}: {last.lag:,}"
        self._report(line)

    def _tell_ends(self) -> None:
        for copy in self.copies.values():
            if copy.ended is not None and not copy.is_told:
                copy.is_told = True
                self._report(f"{copy.source}: {copy.ended}")

    def _is_due(self, what: str, every_ms: float) -> bool:
        """Return whether a task is due, at most every `every_ms`; if it is, set the next time."""
        now_ms = self._clock.monotonic_ms()
        due_ms = self._due_ms.setdefault(what, 0 if what == "locate" else now_ms + every_ms)
        if now_ms < due_ms:
            return False
        self._due_ms[what] = now_ms + every_ms
        return True

    def _is_too_fast(self) -> bool:
        limit = self._settings.bytes_per_s
        return limit is not None and self._read_bytes > limit * (self._clock.monotonic_ms() - self._began_ms) / 1000


def _wait_ms(ready: Sequence[PartitionCopy], copies: Sequence[PartitionCopy]) -> int:
    """How long a leader may wait for records: not if some are there, and only shortly if others cannot be read now."""
    if any(copy.end is None or copy.position < copy.end for copy in ready):
        return 0
    return WAIT_MS if len(ready) == len(copies) else SHORT_WAIT_MS


def _is_lost(copy: PartitionCopy) -> bool:
    """Whether a copy's position has to be found, and can be found because nothing of the copy is on its way."""
    if copy.ended is not None or copy.is_in_flight:
        return False
    return not copy.is_located or (copy.is_doubtful and not copy.has_batches)


async def _find_leaders(connections: Connections, topics: Iterable[str]) -> None:
    with contextlib.suppress(NoLeader):  # it is tried again
        await connections.find_leaders(sorted(topics))
    await asyncio.sleep(0.05)


def _cluster(network: Network, servers: Sequence[str]) -> KafkaCluster:
    return KafkaCluster(
        network, servers, client_id=CLIENT_ID, request_timeout_ms=API_TIMEOUT_MS, api_timeout_ms=API_TIMEOUT_MS
    )
