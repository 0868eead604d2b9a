"""`ClockPairs` gathers what bounds the wall clocks of brokers and ZooKeeper to each other, from lines and transactions.

A pair is a line on one machine that was written before a line or transaction on another. Both name the same fact: a
control request and its answer, an ISR and its partition epoch, a registration and its broker epoch, a session. Kafka
and ZooKeeper cut times to whole milliseconds, so the later one may be up to a millisecond later than it says.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

from understudy.checks.history import OpKind, ZnodeTransaction
from understudy.foundation.cluster.grouping import grouped
from understudy.history.kafka_logs.clock_offsets import ZOOKEEPER, clock_of_broker, clock_of_transaction
from understudy.history.kafka_logs.entries import Entry
from understudy.history.kafka_logs.kafka_text import ISR_AND_VERSION, LEADER_AND_ISR, LEADER_ISR_AND_EPOCH, session_id
from understudy.history.kafka_logs.statements import CONTROLLER, IDENT, STATE_CHANGE
from understudy.history.kafka_logs.survey import EntryKind
from understudy.history.kafka_logs.transactions import REGISTRATION, STATE, Logged, epoch_in
from understudy.history.reading.clock_evidence import ClockEvidence, Stretches
from understudy.history.reading.clocks import Incarnation
from understudy.history.reading.transaction_log import OpenedSession

LOG_RESOLUTION_US: Final = 1_000
"""Times in logs are cut to this."""
MOST_OPEN: Final = 100_000
"""Maximum number of facts of which one end has come; the oldest are forgotten first."""
MOST_REQUESTS: Final = 10_000
"""Maximum number of requests, and of receipts, that are kept of each channel."""
MOST_HELD: Final = 100
"""Maximum number of LeaderAndIsr requests that wait for the line that names their controller epoch."""
UNKNOWN_EPOCH: Final = -1

_Fact: TypeAlias = tuple[object, ...]
_TRANSACTIONS: Final = ("state", "registration", "session", "closed")
"""Facts that are transactions of ZooKeeper."""
_EVENT_LINES: Final = {
    "kafka.server.KafkaServer": r"(?P<shutdown>Starting controlled shutdown)",
    "kafka.zk.KafkaZkClient": (
        r"(?P<creating>Creating /brokers/ids/\d+)|"
        r"Registered broker \d+ at .*czxid \(broker epoch\): (?P<registered>\d+)"
    ),
    "kafka.zookeeper.ZooKeeperClient": r"(?P<new_session>Initializing a new session)|(?P<closing>Closing\.)",
    "org.apache.zookeeper.ClientCnxn": (
        r"Session establishment complete on server .*session ?id = 0x(?P<session>[0-9a-f]+)"
    ),
    "org.apache.zookeeper.ZooKeeper": r"Session: 0x(?P<closed>[0-9a-f]+) closed",
    "kafka.cluster.Partition": (
        r"(?P<changing_isr>Shrinking|Expanding) ISR|ISR updated to .*version updated to \[?(?P<isr_version>\d+)"
    ),
    CONTROLLER: (
        r"\d+ successfully elected as the controller\. Epoch incremented to (?P<elected>\d+)|"
        r"(?:Initialized|Updated) broker epochs cache: (?P<epochs>.*)|(?P<updating_isrs>Updating ISRs for)|"
        r"Newly added brokers: (?P<new>[\d,]*), deleted brokers: [\d,]*, bounced brokers: (?P<bounced>[\d,]*)|"
        r"Shutting down broker (?P<stopping>\d+)|"
        rf"ISR for partition (?P<partition>\S+) updated to (?:{LEADER_AND_ISR}|"
        rf"{ISR_AND_VERSION.replace('isr>', 'old_isr>').replace('partition_epoch>', 'old_epoch>')})"
    ),
    "kafka.controller.RequestSendThread": (
        r"Controller \d+ epoch \d+ fails to send request .*\(id: (?P<failed>\d+) rack"
    ),
}
_STATE_CHANGES: Final = tuple(
    re.compile(pattern, re.DOTALL)
    for pattern in (
        r"Sending LeaderAndIsr request to broker (?P<to>\d+) with (?P<leaders>\d+) become-leader and "
        r"(?P<followers>\d+) become-follower",
        r"Sending UpdateMetadata request to brokers (?P<brokers>.*) for (?P<updated>\d+) partitions",
        r"Sending StopReplica request (?:\(delete = \w+\) )?for \d+ replicas to broker (?P<stopped>\d+)",
        r"Handling LeaderAndIsr request correlationId (?P<leader_id>\d+) from controller (?P<leader_from>\d+) for "
        r"(?P<leader_count>\d+) partitions",
        r"Add (?P<added>\d+) partitions and deleted (?P<deleted>\d+) partitions from metadata cache in response to "
        r"UpdateMetadata request sent by controller (?P<update_from>\d+) epoch (?P<update_epoch>\d+) with correlation "
        r"id (?P<update_id>\d+)",
        r"Received response .* for request \w+ with correlation id (?P<answer_id>\d+) sent to broker \S+ "
        r"\(id: (?P<answer_of>\d+) rack",
        r"Changed partition (?P<new>\S+) state from \S+ to NewPartition",
        rf"Changed partition (?P<changed>\S+) from \w+ to \w+ with state {LEADER_AND_ISR}",
        rf"Partition (?P<removed>\S+) state changed to {LEADER_ISR_AND_EPOCH}",
    )
)
_STATE_CHANGES_OF: Final = grouped((one.pattern.split(" ", 1)[0], one) for one in _STATE_CHANGES)
"""The patterns by the first word of the line."""
_LINES: Final = {logger: re.compile(pattern, re.DOTALL) for logger, pattern in _EVENT_LINES.items()}
_EPOCH: Final = re.compile(r"(\d+) -> (\d+)")
_CONTROLLER_IDENT: Final = re.compile(r"Controller id=\d+ epoch=(?P<epoch>\d+)")
_PARTITION_IDENT: Final = re.compile(r"Partition (?P<partition>\S+) broker=\d+")
_NUMBER: Final = re.compile(r"\d+")


class Sighting(NamedTuple):
    """A line that shows that another broker acted, and so has written lines itself at about the same time."""

    broker: int
    """The broker that acted."""
    clock: Incarnation
    """The clock of the line."""
    ms: int
    kinds: frozenset[EntryKind]
    """The kinds of its log that have a line about it, if it has them."""
    what: str
    epoch: int = UNKNOWN_EPOCH
    """The broker epoch, if it registered."""


_Channel: TypeAlias = tuple[int, int, int, int]
"""Controller, controller epoch, receiver, and the receiver's broker epoch."""


class _Request(NamedTuple):
    """A control request at one of its ends."""

    number: int
    """Its place in the channel of its controller, from 0; at the receiver, the correlation id."""
    api: str
    partitions: int
    ms: int


@dataclass(slots=True)
class _Sent:
    """The requests that a controller put into one channel since it opened the channel.

    Attributes:
        failures: the attempts that may have used a correlation id more.
        step: only numbers that are multiples of this are kept.
    """

    count: int = 0
    failures: int = 0
    step: int = 1
    requests: dict[int, _Request] = field(default_factory=dict)

    def add(self, api: str, partitions: int, ms: int) -> None:
        """Add the next request. One without partitions leaves no line at its receiver, and is only counted."""
        number, self.count = self.count, self.count + 1
        if partitions and number % self.step == 0:
            self.requests[number] = _Request(number, api, partitions, ms)
            self.step = _thinned(self.requests, self.step)


class ClockPairs:
    """The pairs of all logs, gathered one broker after the other.

    Args:
        has_zookeeper: whether ZooKeeper's transactions will be added.

    Attributes:
        evidence: the pairs, as `align` reads them.
        pairs: the number of pairs of each clock.
        registered: the broker epochs of each broker that its own log has.
    """

    def __init__(self, *, has_zookeeper: bool = True) -> None:
        self._has_zookeeper = has_zookeeper
        self.evidence = ClockEvidence()
        self.pairs: Counter[Incarnation] = Counter()
        self._sightings: dict[tuple[int, Incarnation, frozenset[EntryKind], bool], tuple[Sighting, Sighting]] = {}
        self._open: dict[_Fact, tuple[Incarnation, int, bool]] = {}
        self._sent: dict[_Channel, _Sent] = {}
        self._received: dict[_Channel, dict[int, _Request]] = defaultdict(dict)
        self._steps: Counter[_Channel] = Counter()
        self.registered: dict[int, set[int]] = defaultdict(set)
        self._seen_epochs: dict[int, set[int]] = defaultdict(set)
        """The broker epochs of each broker that controllers have seen."""

    def add_broker(self, broker: int, entries: Iterable[Entry]) -> None:
        """Add all lines of a broker, in the order of their times."""
        scan = _BrokerScan(self, broker)
        for entry in entries:
            scan.add(entry)

    def add_transactions(self, transactions: Iterable[Logged]) -> None:
        """Add ZooKeeper's transactions."""
        for transaction in transactions:
            clock, ms = clock_of_transaction(transaction.zxid), int(transaction.time_ms)
            self.saw(clock, ms)
            if isinstance(transaction, OpenedSession):
                self.both(("session", transaction.session_id), clock, ms)
                continue
            if not isinstance(transaction, ZnodeTransaction):
                continue
            if transaction.closed_session:
                self.both(("closed", transaction.session_id), clock, ms)
            for op in transaction.ops:
                if op.kind not in (OpKind.CREATE, OpKind.SET):
                    continue
                if (match := STATE.fullmatch(op.path)) is not None:
                    self.both(("state", f"{match['topic']}-{match['partition']}", op.version), clock, ms)
                elif (match := REGISTRATION.fullmatch(op.path)) is not None and op.kind is OpKind.CREATE:
                    self.both(("registration", transaction.zxid), clock, ms)
                    self.saw_acting(
                        Sighting(int(match["broker"]), clock, ms, _PROCESS, "it registered", transaction.zxid)
                    )
                elif (epoch := epoch_in(op)) is not None:
                    self.earlier(("elected", epoch), clock, ms)

    @property
    def sightings(self) -> tuple[Sighting, ...]:
        """Lines that show that another broker acted: the first and the last of each kind."""
        return tuple(sighting for pair in self._sightings.values() for sighting in pair)

    # -- the ends of pairs

    def saw(self, clock: Incarnation, ms: int) -> None:
        """Add the time of any line or transaction of a clock."""
        own = self.evidence.of(clock)
        own.boot = own.boot or f"the clock of {clock[0]}" + (f", epoch {clock[1] - 1}" if clock[0] == ZOOKEEPER else "")
        own.records += 1
        own.last_us = max(own.last_us, ms * 1000)
        if ms >= own.next_wall_ms:
            own.see_wall("", ms, ms)

    def earlier(self, fact: _Fact, clock: Incarnation, ms: int) -> None:
        """Add the end of a pair that was written first."""
        self._end((*fact, "<"), clock, ms, is_later=False)

    def later(self, fact: _Fact, clock: Incarnation, ms: int) -> None:
        """Add the end of a pair that was written last."""
        self._end((*fact, "<"), clock, ms, is_later=True)

    def both(self, fact: _Fact, clock: Incarnation, ms: int) -> None:
        """Add what was written after the line `before` and before the line `after` of another clock."""
        self.later((*fact, "before"), clock, ms)
        self.earlier((*fact, "after"), clock, ms)

    def before(self, fact: _Fact, clock: Incarnation, ms: int) -> None:
        """Add the line before the fact that `both` adds."""
        if not self._has_zookeeper and fact[0] in _TRANSACTIONS:
            return
        self.earlier((*fact, "before"), clock, ms)

    def after(self, fact: _Fact, clock: Incarnation, ms: int) -> None:
        """Add the line after the fact that `both` adds."""
        if not self._has_zookeeper and fact[0] in _TRANSACTIONS:
            return
        self.later((*fact, "after"), clock, ms)

    def saw_acting(self, sighting: Sighting) -> None:
        """Add what a broker did, if another one has logged it. Kept are the first and the last of each kind."""
        if sighting.clock != clock_of_broker(sighting.broker):
            key = (sighting.broker, sighting.clock, sighting.kinds, sighting.epoch == UNKNOWN_EPOCH)
            first, last = self._sightings.get(key, (sighting, sighting))
            at = sighting.ms, sighting.epoch
            self._sightings[key] = (
                sighting if at < (first.ms, first.epoch) else first,
                sighting if at > (last.ms, last.epoch) else last,
            )

    def _end(self, fact: _Fact, clock: Incarnation, ms: int, *, is_later: bool) -> None:
        other = self._open.get(fact)
        if other is None or other[2] == is_later:
            if other is None:
                self._open[fact] = (clock, ms, is_later)
                if len(self._open) > MOST_OPEN:
                    del self._open[next(iter(self._open))]
            return
        del self._open[fact]
        if is_later:
            self.pair(other[0], other[1], clock, ms)
        else:
            self.pair(clock, ms, other[0], other[1])

    def pair(self, earlier: Incarnation, earlier_ms: int, later: Incarnation, later_ms: int) -> None:
        """Add a pair."""
        if earlier != later:
            self.pairs[earlier] += 1
            self.pairs[later] += 1
            stretches = self.evidence.messages.setdefault((earlier, later), Stretches())
            stretches.add(earlier_ms * 1000, later_ms * 1000 + LOG_RESOLUTION_US)

    # -- control requests

    def saw_epoch(self, broker: int, epoch: int) -> None:
        self._seen_epochs[broker].add(epoch)

    def sent_over(self, channel: _Channel, sent: _Sent) -> None:
        """Add the requests of a channel; more may be added to `sent`."""
        self._sent[channel] = sent

    def received(self, channel: _Channel, request: _Request) -> None:
        """Add the receipt of a request."""
        step = self._steps[channel] or 1
        if request.number % step == 0:
            self._received[channel].setdefault(request.number, request)
            self._steps[channel] = _thinned(self._received[channel], step)

    def end(self) -> None:
        """Pair the requests of each channel, when all logs have been added."""
        current = {
            broker: max(unknown)
            for broker, seen in self._seen_epochs.items()
            if (unknown := {epoch for epoch in seen if epoch < min(self.registered[broker], default=epoch + 1)})
        }
        for fact in [fact for fact in self._open if fact[0] == "answer" and fact[4] == UNKNOWN_EPOCH]:
            clock, ms, is_later = self._open.pop(fact)
            if isinstance(broker := fact[3], int) and broker in current:
                self._end((*fact[:4], current[broker], *fact[5:]), clock, ms, is_later=is_later)
        for channel, received in self._received.items():
            controller, epoch, broker, broker_epoch = channel
            if broker_epoch == UNKNOWN_EPOCH:
                channel = (controller, epoch, broker, current.get(broker, UNKNOWN_EPOCH))
            if (sent := self._sent.get(channel)) is not None:
                self._pair_requests(channel, sent, received)

    def _pair_requests(self, channel: _Channel, sent: _Sent, received: dict[int, _Request]) -> None:
        """Pair each receipt with the earliest request that it can be: a request that failed has several numbers."""
        sender, receiver = clock_of_broker(channel[0]), clock_of_broker(channel[2])
        for at_receiver in received.values():
            for number in range(max(at_receiver.number - sent.failures, 0), at_receiver.number + 1):
                request = sent.requests.get(number)
                if request is not None and request[1:3] == at_receiver[1:3]:
                    self.pair(sender, request.ms, receiver, at_receiver.ms)
                    break
        if sent.failures or max(sent.step, self._steps[channel]) > 1:
            return
        last = max(received)
        for request in sent.requests.values():
            if request.number < last and request.number not in received:
                what = f"it handled a {request.api} of controller {channel[0]}"
                self.saw_acting(Sighting(channel[2], sender, request.ms, _HANDLING, what))


_PROCESS: Final = frozenset({EntryKind.CONTROLLER, EntryKind.SERVER})
_SERVER: Final = frozenset({EntryKind.SERVER})
_HANDLING: Final = frozenset({EntryKind.STATE_CHANGE})


def _thinned(requests: dict[int, _Request], step: int) -> int:
    """Leave out every second request if there are too many; return the new step of their numbers."""
    if len(requests) <= MOST_REQUESTS:
        return step
    for number in [number for number in requests if number % (2 * step)]:
        del requests[number]
    return 2 * step


class _BrokerScan:
    """Reads the lines of one broker for its ends of pairs."""

    def __init__(self, pairs: ClockPairs, broker: int) -> None:
        self._pairs = pairs
        self._broker = broker
        self._clock = clock_of_broker(broker)
        self._creating_ms: int | None = None
        self._session_ms: int | None = None
        self._closing_ms: int | None = None
        self._session_id = 0
        self._isr_ms: dict[str, int] = {}
        self._updating_ms: int | None = None
        self._broker_epoch = UNKNOWN_EPOCH
        self._controller_epoch = UNKNOWN_EPOCH
        self._epochs: dict[int, int] = {}
        """The broker epochs of the live brokers, if this one is their controller."""
        self._channels: dict[int, _Sent] = {}
        """The channels to brokers that have been opened in its log."""
        self._held: dict[int, list[_Request]] = defaultdict(list)
        """The LeaderAndIsr requests whose controller epoch the next UpdateMetadata names, by controller."""

    def add(self, entry: Entry) -> None:
        self._pairs.saw(self._clock, entry.ms)
        if entry.logger == STATE_CHANGE:
            ident = IDENT.match(entry.message)
            text = entry.message if ident is None else entry.message[ident.end() :]
            for pattern in _STATE_CHANGES_OF.get(text.partition(" ")[0], ()):
                if (found := pattern.match(text)) is not None:
                    self._state_change(entry.ms, "" if ident is None else ident["ident"], found)
                    return
        elif (lines := _LINES.get(entry.logger)) is not None:
            ident = IDENT.match(entry.message)
            found = lines.match(entry.message if ident is None else entry.message[ident.end() :])
            if found is not None and found.lastgroup is not None:
                self._line(entry.ms, "" if ident is None else ident["ident"], found)

    def _line(self, ms: int, ident: str, match: re.Match[str]) -> None:
        pairs, clock, found = self._pairs, self._clock, match.groupdict()
        if found.get("shutdown"):
            pairs.earlier(("shutdown", self._broker, self._broker_epoch), clock, ms)
        elif found.get("creating"):
            self._creating_ms = ms
        elif found.get("registered"):
            self._registered(ms, int(found["registered"]))
        elif found.get("new_session"):
            self._session_ms = ms
        elif found.get("session"):
            self._session_id = session_id(found["session"])
            if self._session_ms is not None:
                pairs.before(("session", self._session_id), clock, self._session_ms)
            pairs.after(("session", self._session_id), clock, ms)
            self._session_ms = None
        elif found.get("closing"):
            pairs.before(("closed", self._session_id), clock, ms)
        elif found.get("closed"):
            pairs.after(("closed", session_id(found["closed"])), clock, ms)
        elif (partition := _PARTITION_IDENT.fullmatch(ident)) is not None:
            self._isr(ms, partition["partition"], found)
        else:
            self._controller_line(ms, found)

    def _registered(self, ms: int, epoch: int) -> None:
        pairs, clock = self._pairs, self._clock
        self._broker_epoch = epoch
        pairs.registered[self._broker].add(epoch)
        if self._creating_ms is not None:
            pairs.before(("registration", epoch), clock, self._creating_ms)
            pairs.earlier(("live", epoch), clock, self._creating_ms)
        pairs.after(("registration", epoch), clock, ms)
        self._creating_ms = None

    def _isr(self, ms: int, partition: str, found: dict[str, str | None]) -> None:
        if found.get("changing_isr"):
            self._isr_ms[partition] = ms
            return
        fact = (partition, int(found["isr_version"] or 0))
        if (since := self._isr_ms.pop(partition, None)) is not None:
            self._pairs.before(("isr", *fact), self._clock, since)
        self._pairs.after(("isr", *fact), self._clock, ms)

    def _controller_line(self, ms: int, found: dict[str, str | None]) -> None:
        pairs, clock = self._pairs, self._clock
        if elected := found.get("elected"):
            self._controller_epoch = int(elected)
            self._epochs, self._channels = {}, {}
            pairs.later(("elected", int(elected)), clock, ms)
        elif (epochs := found.get("epochs")) is not None:
            self._saw_epochs(ms, {int(broker): int(epoch) for broker, epoch in _EPOCH.findall(epochs)})
        elif found.get("updating_isrs"):
            self._updating_ms = ms
        elif stopping := found.get("stopping"):
            broker = int(stopping)
            pairs.later(("shutdown", broker, self._epochs.get(broker, UNKNOWN_EPOCH)), clock, ms)
            pairs.saw_acting(Sighting(broker, clock, ms, _SERVER, "it asked for its controlled shutdown"))
        elif (new := found.get("new")) is not None:
            # Its first requests are logged before its broker epoch.
            for broker in (*_NUMBER.findall(new), *_NUMBER.findall(found["bounced"] or "")):
                self._epochs.pop(int(broker), None)
                self._channels[int(broker)] = _Sent()
        elif failed := found.get("failed"):
            if (sent := self._channels.get(int(failed))) is not None:
                sent.failures += 1
        elif partition := found.get("partition"):
            fact = (partition, int(found.get("partition_epoch") or found.get("old_epoch") or 0))
            if self._updating_ms is not None:
                pairs.before(("state", *fact), clock, self._updating_ms)
            pairs.after(("state", *fact), clock, ms)
            pairs.both(("isr", *fact), clock, ms)
            if (leader := found.get("leader")) is not None:
                pairs.saw_acting(Sighting(int(leader), clock, ms, _SERVER, f"it changed the ISR of {partition}"))

    def _saw_epochs(self, ms: int, epochs: dict[int, int]) -> None:
        is_first = not self._epochs
        for broker, epoch in epochs.items():
            self._pairs.saw_epoch(broker, epoch)
            self._pairs.later(("live", epoch), self._clock, ms)
            if self._epochs.get(broker) == epoch or self._controller_epoch == UNKNOWN_EPOCH:
                continue
            sent = self._channels.setdefault(broker, _Sent()) if is_first else self._channels.get(broker)
            if sent is not None:
                self._pairs.sent_over((self._broker, self._controller_epoch, broker, epoch), sent)
            if not is_first:
                self._pairs.saw_acting(Sighting(broker, self._clock, ms, _PROCESS, "it registered", epoch))
        self._epochs = epochs

    def _sent(self, to: int, api: str, partitions: int, ms: int) -> None:
        if (sent := self._channels.get(to)) is not None:
            sent.add(api, partitions, ms)

    def _state_change(self, ms: int, ident: str, match: re.Match[str]) -> None:
        pairs, clock, found = self._pairs, self._clock, match.groupdict()
        if "to" in found:
            partitions = int(found["leaders"]) + int(found["followers"])
            self._sent(int(found["to"]), "LeaderAndIsr", partitions, ms)
        elif "brokers" in found:
            for broker in _NUMBER.findall(found["brokers"]):
                self._sent(int(broker), "UpdateMetadata", int(found["updated"]), ms)
        elif "stopped" in found:
            self._sent(int(found["stopped"]), "StopReplica", 0, ms)
        elif "leader_id" in found:
            held = _Request(int(found["leader_id"]), "LeaderAndIsr", int(found["leader_count"]), ms)
            of_controller = self._held[int(found["leader_from"])]
            of_controller.append(held)
            del of_controller[:-MOST_HELD]
        elif "update_id" in found:
            self._updated(ms, found)
        elif "answer_id" in found:
            epoch = _CONTROLLER_IDENT.fullmatch(ident)
            if epoch is not None:
                broker = int(found["answer_of"])
                answer = (self._broker, int(epoch["epoch"]), broker, self._epochs.get(broker, UNKNOWN_EPOCH))
                pairs.later(("answer", *answer, int(found["answer_id"])), clock, ms)
        elif "new" in found:
            pairs.before(("state", found["new"], 0), clock, ms)
        else:
            partition = found.get("changed") or found.get("removed")
            pairs.after(("state", partition, int(found["partition_epoch"])), clock, ms)

    def _updated(self, ms: int, found: dict[str, str]) -> None:
        controller, epoch, number = (int(found[name]) for name in ("update_from", "update_epoch", "update_id"))
        channel = (controller, epoch, self._broker, self._broker_epoch)
        for held in self._held.pop(controller, ()):
            if held.number < number:
                self._pairs.received(channel, held)
        partitions = int(found["added"]) + int(found["deleted"])
        self._pairs.received(channel, _Request(number, "UpdateMetadata", partitions, ms))
        self._pairs.earlier(("answer", *channel, number), self._clock, ms)
