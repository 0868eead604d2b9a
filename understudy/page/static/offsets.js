/** The logs of partitions as `#fold` follows them: where they begin and end, high watermarks, and truncations. */

import { larger, less, writable } from "#state";

const NEW_LOG = {
  role: "", leader_epoch: -1, start: null, end: null, high_watermark: null, epochs: [], cut: null,
};

/** Changes what is known of a log; of a log of another topic id nothing is known. */
function changeLog(state, node, data, changesOf) {
  const known = node.logs.at(data.topic, String(data.partition));
  const log = known?.topic_id === data.topic_id ? known : { topic_id: data.topic_id, ...NEW_LOG };
  writable(state, node, "logs").put(data.topic, String(data.partition), { ...log, ...changesOf(log) });
}

/** Adds a `LogOpened` to what is known of its log. */
export function logOpened(state, node, data) {
  const { log_start_offset: start, log_end_offset: end, high_watermark, epochs } = data;
  changeLog(state, node, data, () => ({ ...NEW_LOG, start, end, high_watermark, epochs }));
}

/** Adds a `LeaderStarted` to what is known of its log. */
export function leaderStarted(state, node, data) {
  const { leader_epoch, log_end_offset: end, high_watermark, epochs } = data;
  changeLog(state, node, data, () => ({ role: "leader", leader_epoch, end, high_watermark, epochs }));
}

/** Adds a `RecordsAppended` to what is known of its log. */
export function recordsAppended(state, node, data) {
  const { role, leader_epoch, batches } = data;
  changeLog(state, node, data, (log) => {
    if (batches.length === 0) return { role, leader_epoch };
    return { role, leader_epoch, end: batches.at(-1)[1], epochs: withEpochs(log.epochs, batches) };
  });
}

function withEpochs(epochs, batches) {
  let found = epochs;
  for (const [offset, , epoch] of batches) {
    if (found.length === 0 || less(found.at(-1)[0], epoch)) found = [...found, [epoch, offset]];
  }
  return found;
}

/** Adds a `HighWatermarkChanged` to what is known of its log. */
export function highWatermarkChanged(state, node, data) {
  const { role, leader_epoch, log_end_offset: end, high_watermark } = data;
  changeLog(state, node, data, () => ({ role, leader_epoch, end, high_watermark }));
}

/** Adds a `LogTruncated` to what is known of its log, with the offsets that it has removed. */
export function logTruncated(state, node, data, [us]) {
  const { leader_epoch, to_offset: end, is_full, epochs } = data;
  const high_watermark = less(end, data.high_watermark) ? end : data.high_watermark;
  changeLog(state, node, data, (log) => {
    const cut = log.end !== null && less(end, log.end) ? { from: end, end: log.end, us } : log.cut;
    return { role: "follower", leader_epoch, start: is_full ? end : log.start, end, high_watermark, epochs, cut };
  });
}

/** Adds a `RecordsAcknowledged`: the largest offset of a partition that a producer has an answer for. */
export function recordsAcknowledged(state, data) {
  const { topic, topic_id, partition, last_offset } = data;
  const known = state.acknowledged.at(topic, String(partition));
  const offset = known?.topic_id === topic_id ? larger(known.offset, last_offset) : last_offset;
  writable(state, state, "acknowledged").put(topic, String(partition), { topic_id, offset });
}
