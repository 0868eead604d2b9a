/**
 * The channels of a controller and the requests in them: a part of `#fold`, in Python
 * `tests/understudy/page/folding/fold_requests.py`.
 *
 * A channel is never changed but replaced, so that the states before keep theirs.
 */

import { integer, less, writable } from "#state";

const MOST_WAITING = 8;
const MOST_COUNTED = 1_000_000;

function newChannel(broker_epoch) {
  return { broker_epoch, in_flight: null, unanswered: null, waiting: 0, first: [] };
}

function setChannel(state, node, to, channel) {
  writable(state, node, "channels").set(String(to), channel);
}

/** Forgets the requests that a node has sent. */
export function dropRequestsFrom(state, name) {
  const orphans = [...state.in_flight].filter(([, request]) => request.from === name);
  for (const [key] of orphans) writable(state, state, "in_flight").delete(key);
}

function dropRequest(state, key) {
  if (key !== null && state.in_flight.has(key)) writable(state, state, "in_flight").delete(key);
}

/** Opens a channel to a registration of a broker; what a channel to an earlier one held is gone. */
export function channelOpened(state, node, data) {
  dropRequest(state, node.channels.get(String(data.to))?.in_flight ?? null);
  setChannel(state, node, data.to, newChannel(data.broker_epoch));
}

/** Closes a channel and drops what waits in it. */
export function channelClosed(state, node, data) {
  const channel = node.channels.get(String(data.to));
  if (channel === undefined) return;
  dropRequest(state, channel.in_flight);
  writable(state, node, "channels").delete(String(data.to));
}

/** Puts a request among the ones that wait. */
export function requestQueued(state, node, data, [us, , , seq]) {
  if (node.life === "dead") return; // recorded between the record of the fault and the end of the process
  const channel = node.channels.get(String(data.to)) ?? newChannel(data.broker_epoch);
  const waiting = Math.min(Math.max(Number(integer(data.depth)), 1), MOST_COUNTED);
  const first = channel.first.slice(0, waiting - 1); // coalescing replaces the ones from `depth` on
  if (first.length === waiting - 1 && first.length < MOST_WAITING) {
    const { api, controller_epoch: epoch, partitions, event } = data;
    first.push({ id: seq, api, epoch, partitions, event, since_us: us });
  }
  setChannel(state, node, data.to, { ...channel, waiting, first });
}

/** Takes the request with an id from the ones that wait, and those before it: they are sent in order. */
function withoutWaiting(channel, queued) {
  if (less(queued, 1)) return channel;
  const sent = channel.first.findIndex((each) => each.id === queued) + 1;
  const first = channel.first.slice(sent);
  return { ...channel, waiting: Math.max(channel.waiting - Math.max(sent, 1), first.length), first };
}

/** Puts a request on its way. A channel has one at a time: the one before has ended, on record or not. */
export function requestSent(state, node, data, [us, name, incarnation, seq]) {
  if (node.life === "dead") return; // as above
  const key = `${name}/${incarnation}/${seq}`;
  const channel = node.channels.get(String(data.to)) ?? newChannel(data.broker_epoch);
  dropRequest(state, channel.in_flight);
  setChannel(state, node, data.to, { ...withoutWaiting(channel, data.queued), in_flight: key, unanswered: null });
  writable(state, state, "in_flight").set(key, {
    us,
    from: name,
    to: data.to,
    api: data.api,
    epoch: data.controller_epoch,
    partitions: data.partitions,
    event: data.event,
    attempt: data.attempt,
    client_id: data.client_id,
    correlation_id: data.correlation_id,
    is_received: false,
    answer: null,
  });
}

/** Ends a request that has its answer. */
export function requestEnded(state, node, data, record) {
  endRequest(state, node, record, () => null);
}

/** Ends an attempt without an answer; the request is sent again before any that waits. */
export function requestFailed(state, node, data, record) {
  endRequest(state, node, record, ({ api, epoch, partitions, event, us }) => (
    { id: record[5] ?? 0, api, epoch, partitions, event, since_us: us }
  ));
}

function endRequest(state, node, record, unanswered) {
  const key = `${record[1]}/${record[2]}/${record[5] ?? 0}`;
  const request = state.in_flight.get(key);
  if (request === undefined) return;
  dropRequest(state, key);
  const channel = node.channels.get(String(request.to));
  if (channel?.in_flight !== key) return;
  setChannel(state, node, request.to, { ...channel, in_flight: null, unanswered: unanswered(request) });
}

/** Changes the requests on their way to a node that the node's record is about. */
export function atReceiver(state, node, data, changes) {
  if (node.broker_id === -1) return;
  for (const sender of state.nodes.values()) {
    const key = sender.channels.get(String(node.broker_id))?.in_flight ?? null;
    const request = key === null ? undefined : state.in_flight.get(key);
    const isMeant = request !== undefined && request.api === data.api && request.client_id === data.client_id
      && request.correlation_id === data.correlation_id;
    if (isMeant) writable(state, state, "in_flight").set(key, { ...request, ...changes });
  }
}
