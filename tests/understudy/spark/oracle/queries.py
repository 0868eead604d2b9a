"""The Spark SQL of the tables in `understudy.history.metrics.metric_tables`. Each view is one sentence of a
definition there.

The first views read one view for each record type (`ControllerElected` …), with the columns run, us, node,
incarnation, seq, cause, controller_epoch and `data`; later views read earlier ones. Only native expressions are used,
so that Spark can split many runs by run, and a huge run by topic-partition and request. A view with the name of a table
is that table.

Times are whole microseconds in columns that end in `us`, and milliseconds only in the tables.
"""

from __future__ import annotations

import re

from understudy.foundation.eventlog.records import PAYLOAD_BY_TYPE
from understudy.history.metrics.leadership_history import DOWN_FAULTS, NO_ELECTION, UNCLEAN, UP_FAULTS
from understudy.history.metrics.metrics import NO_ERROR
from understudy.history.metrics.reigns import CONTROLLER, NOT_A_FAULT, ORDERLY_ENDS, UNDONE
from understudy.history.metrics.settings import BROKER_NODE, SETTING_NAMES

_KEY = "us, node, incarnation, seq"
"""A record's place in the order of its run; its `struct` compares like
`understudy.history.reading.run_records.Key`.
"""


def _in(values: tuple[str, ...]) -> str:
    return ", ".join(f"'{value}'" for value in values)


def _rank(percent: int) -> str:
    return f"({percent} * n + 99) DIV 100"


def _us(ms: str) -> str:
    return f"CAST(floor({ms} * 1000 + 0.5D) AS BIGINT)"


def _ms(us: str) -> str:
    return f"{us} / 1000D"


_REIGNS = {
    "elections_of_controllers": f"""
        SELECT run, data.epoch, data.broker_id AS broker, {_KEY}, cause,
               row_number() OVER in_turn AS reign, lead(us) OVER in_turn AS next_us
        FROM ControllerElected
        WINDOW in_turn AS (PARTITION BY run ORDER BY data.epoch, {_KEY})""",
    "faults": f"""
        SELECT run, {_KEY}, data.target, data.fault FROM FaultInjected WHERE data.fault <> '{NOT_A_FAULT}'
        UNION ALL SELECT run, {_KEY}, node, data.action FROM PointReached""",
    "reign_faults": f"""
        SELECT run, reign, fault.us, fault.fault FROM (
            SELECT e.run, e.reign, max_by(struct(f.us, f.fault), struct(f.us, f.node, f.incarnation, f.seq)) AS fault
            FROM elections_of_controllers e JOIN faults f
              ON f.run = e.run AND f.target IN (e.node, '{CONTROLLER}')
             AND f.us >= e.us AND (e.next_us IS NULL OR f.us <= e.next_us)
            GROUP BY e.run, e.reign)
        WHERE fault.fault NOT IN ({_in(UNDONE)})""",
    "controller_znode_changes": f"""
        SELECT run, {_KEY}, data.winner, true AS lost FROM ElectionLost
        UNION ALL SELECT run, {_KEY}, NULL, false FROM WatchFired
                  WHERE data.path = '{CONTROLLER}' AND data.kind = 'deleted'""",
    "controller_gone": f"""
        SELECT * FROM (
            SELECT run, {_KEY}, lost,
                   CASE WHEN lead(lost) OVER own THEN lead(winner) OVER own END AS lost_to, lead(us) OVER own AS lost_us
            FROM controller_znode_changes WINDOW own AS (PARTITION BY run, node, incarnation ORDER BY seq))
        WHERE NOT lost""",
    "notices_of_losses": f"""
        SELECT run, {_KEY}, lost_to, lost_us FROM controller_gone
        UNION ALL SELECT run, {_KEY}, NULL, NULL FROM BecameCandidate""",
    "last_words": f"""
        SELECT run, {_KEY}, 'exit' AS words FROM ProcessExiting
        UNION ALL SELECT run, {_KEY}, 'session expired' FROM SessionExpired
        UNION ALL SELECT run, {_KEY}, 'resigned' FROM ControllerResigned
        UNION ALL SELECT run, {_KEY}, 'deleted' FROM controller_gone""",
    "reign_words": """
        SELECT run, reign, said.us, said.words FROM (
            SELECT e.run, e.reign, min_by(struct(w.us, w.words), struct(w.us, w.node, w.incarnation, w.seq)) AS said
            FROM elections_of_controllers e JOIN last_words w
              ON w.run = e.run AND w.node = e.node AND w.incarnation = e.incarnation AND w.seq > e.seq
             AND w.us >= e.us AND (e.next_us IS NULL OR w.us <= e.next_us)
            GROUP BY e.run, e.reign)""",
    "reign_ends": """
        SELECT e.*, f.fault, f.us AS fault_us, w.words, w.us AS words_us,
               coalesce(f.us, CASE WHEN e.next_us IS NOT NULL THEN e.us ELSE w.us END) AS notice_from_us
        FROM elections_of_controllers e
        LEFT JOIN reign_faults f ON f.run = e.run AND f.reign = e.reign
        LEFT JOIN reign_words w ON w.run = e.run AND w.reign = e.reign""",
    "reign_notices": """
        SELECT e.run, e.reign, min_by(struct(g.us, g.node), struct(g.us, g.node, g.incarnation, g.seq)) AS noticed
        FROM reign_ends e JOIN notices_of_losses g
          ON g.run = e.run AND g.node <> e.node
         AND g.us >= e.notice_from_us AND (e.next_us IS NULL OR g.us <= e.next_us)
         AND NOT coalesce(
             g.lost_to = e.broker AND g.lost_us >= e.us AND (e.next_us IS NULL OR g.lost_us <= e.next_us), false)
        GROUP BY e.run, e.reign""",
    "reign_last_signs": """
        SELECT e.run, e.reign, max(r.us) AS us
        FROM reign_ends e LEFT JOIN reign_notices n ON n.run = e.run AND n.reign = e.reign
        JOIN records r ON r.run = e.run AND r.node = e.node AND r.incarnation = e.incarnation
         AND r.us <= coalesce(n.noticed.us, e.next_us)
        WHERE e.fault IS NULL AND e.next_us IS NOT NULL
        GROUP BY e.run, e.reign""",
    "reign_timeouts": """
        SELECT n.run, n.reign, max_by(o.data.timeout_ms, struct(o.us, o.incarnation, o.seq)) AS timeout_ms
        FROM reign_notices n JOIN elections_of_controllers e ON e.run = n.run AND e.reign = n.reign
        JOIN SessionOpened o ON o.run = n.run AND o.node = e.node AND o.us <= n.noticed.us
        GROUP BY n.run, n.reign""",
    "reign_silences": """
        SELECT e.run, e.reign,
               n.noticed.us - least(n.noticed.us - s.us, CASE
                   WHEN (n.noticed.us - s.us) * 2 > coalesce(t.timeout_ms, r.session_timeout_ms) * 3000
                   THEN coalesce(t.timeout_ms, r.session_timeout_ms) * 1000 END) AS us
        FROM reign_ends e
        JOIN reign_last_signs s ON s.run = e.run AND s.reign = e.reign
        JOIN settings r ON r.run = e.run
        JOIN reign_notices n ON n.run = e.run AND n.reign = e.reign
        LEFT JOIN reign_timeouts t ON t.run = e.run AND t.reign = e.reign
        WHERE e.words IS NULL""",
    "readiness": f"""
        SELECT run, node, incarnation, data.epoch,
               min_by(struct(us, size(data.brokers) AS brokers, data.partitions, data.brokers AS live), struct({_KEY}))
                   AS ready
        FROM ControllerReady GROUP BY run, node, incarnation, data.epoch""",
    "reign_times": """
        SELECT e.*, r.ready, n.noticed,
               coalesce(e.fault_us, q.us, s.us, CASE WHEN e.next_us IS NULL THEN e.words_us END) AS ended_us,
               coalesce(e.fault, e.words, CASE WHEN e.next_us IS NULL THEN '' ELSE 'silence' END) AS ended_by
        FROM reign_ends e
        LEFT JOIN reign_notices n ON n.run = e.run AND n.reign = e.reign
        LEFT JOIN reign_last_signs s ON s.run = e.run AND s.reign = e.reign
        LEFT JOIN reign_silences q ON q.run = e.run AND q.reign = e.reign
        LEFT JOIN readiness r
          ON r.run = e.run AND r.node = e.node AND r.incarnation = e.incarnation AND r.epoch = e.epoch""",
    "reigns": f"""
        SELECT run, epoch, broker, node, incarnation, {_ms("us")} AS elected_at_ms, {_ms("ready.us")} AS ready_at_ms,
               {_ms("ended_us")} AS ended_at_ms, ended_by, fault IS NOT NULL AS by_fault,
               {_ms("noticed.us")} AS noticed_at_ms, coalesce(noticed.node, '') AS noticed_by
        FROM reign_times""",
}

_FAILOVERS = {
    "answers": """
        SELECT run, node, incarnation, cause AS seq, min(us) AS us, max(us) AS last_us, count(*) AS answers
        FROM ResponseReceived WHERE cause IS NOT NULL GROUP BY run, node, incarnation, cause""",
    "takeovers": """
        SELECT e.run, e.reign, count_if(s.data.attempt = 1) AS requests, sum(coalesce(a.answers, 0)) AS answers,
               max(a.last_us) AS last_us
        FROM elections_of_controllers e
        JOIN RequestSent s ON s.run = e.run AND s.node = e.node AND s.incarnation = e.incarnation
         AND s.cause = e.cause AND s.data.controller_epoch = e.epoch
        LEFT JOIN answers a ON a.run = s.run AND a.node = s.node AND a.incarnation = s.incarnation AND a.seq = s.seq
        GROUP BY e.run, e.reign""",
    "readings": """
        SELECT e.run, e.reign, min(l.us) AS loaded_us, e.ready.us AS ready_us, e.node, e.incarnation, e.cause
        FROM reign_times e
        JOIN ContextLoaded l
          ON l.run = e.run AND l.node = e.node AND l.incarnation = e.incarnation AND l.us <= e.ready.us
         AND struct(l.us, l.node, l.incarnation, l.seq) > struct(e.us, e.node, e.incarnation, e.seq)
        GROUP BY e.run, e.reign, e.ready.us, e.node, e.incarnation, e.cause""",
    "takeover_writes": """
        SELECT o.run, o.reign, greatest(w.us, o.loaded_us) AS since_us,
               least(coalesce(min(d.us), o.ready_us), o.ready_us) AS until_us, w.seq
        FROM readings o
        JOIN ZkWrite w ON w.run = o.run AND w.node = o.node AND w.incarnation = o.incarnation AND w.cause = o.cause
        LEFT JOIN ZkWriteDone d
          ON d.run = w.run AND d.node = w.node AND d.incarnation = w.incarnation AND d.cause = w.seq
        GROUP BY o.run, o.reign, w.us, w.seq, o.loaded_us, o.ready_us""",
    "writings": """
        SELECT run, reign, sum(greatest(until_us - greatest(since_us, coalesce(covered_us, since_us)), 0)) AS us
        FROM (SELECT *, max(until_us) OVER (PARTITION BY run, reign ORDER BY since_us, until_us, seq
                                            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS covered_us
              FROM takeover_writes)
        GROUP BY run, reign""",
    "failovers": f"""
        SELECT n.run, n.epoch, n.broker, b.epoch AS previous_epoch, b.broker AS previous_broker, b.ended_by AS cause,
               b.fault IS NOT NULL AS by_fault, coalesce(b.noticed.node, '') AS noticed_by,
               {_ms("b.ended_us")} AS lost_at_ms,
               {_ms("(b.noticed.us - b.ended_us)")} AS detection_ms,
               {_ms("(n.us - b.noticed.us)")} AS election_ms,
               {_ms("(n.ready.us - n.us)")} AS takeover_ms,
               {_ms("(o.loaded_us - n.us)")} AS reading_ms,
               CASE WHEN n.cause IS NOT NULL AND z.node IS NOT NULL
                    THEN {_ms("(o.ready_us - o.loaded_us - coalesce(w.us, 0))")} END AS deciding_ms,
               CASE WHEN n.cause IS NOT NULL AND z.node IS NOT NULL AND o.loaded_us IS NOT NULL
                    THEN {_ms("coalesce(w.us, 0)")} END AS writing_ms,
               CASE WHEN t.last_us IS NOT NULL AND n.ready IS NOT NULL
                    THEN {_ms("greatest(t.last_us - n.ready.us, 0)")} END AS propagation_ms,
               {_ms("(n.ready.us - b.ended_us)")} AS outage_ms,
               CASE WHEN n.cause IS NOT NULL THEN coalesce(t.requests, 0) END AS requests,
               CASE WHEN n.cause IS NOT NULL THEN coalesce(t.requests - t.answers, 0) END AS unanswered,
               n.ready.brokers, CASE WHEN n.ready.partitions >= 0 THEN n.ready.partitions END AS partitions
        FROM reign_times n JOIN reign_times b ON b.run = n.run AND b.reign = n.reign - 1
        LEFT JOIN takeovers t ON t.run = n.run AND t.reign = n.reign
        LEFT JOIN readings o ON o.run = n.run AND o.reign = n.reign
        LEFT JOIN writings w ON w.run = n.run AND w.reign = n.reign
        LEFT JOIN (SELECT DISTINCT run, node, incarnation FROM ZkWrite) z
          ON z.run = n.run AND z.node = n.node AND z.incarnation = n.incarnation""",
    "run_ends": f"""
        SELECT run, CASE WHEN ended_us IS NOT NULL AND NOT others_after THEN ended_us ELSE last_us END AS us FROM (
            SELECT r.run, max(r.us) AS last_us, first(f.ended_us) AS ended_us,
                   bool_or(coalesce(startswith(r.node, 'broker-') AND r.node <> f.node AND r.us > f.ended_us, false))
                       AS others_after
            FROM records r
            LEFT JOIN reign_times f ON f.run = r.run AND f.next_us IS NULL AND f.ended_by IN ({_in(ORDERLY_ENDS)})
            GROUP BY r.run)""",
}

_PARTITIONS = {
    "named_states": f"""
        SELECT run, {_KEY}, place, s.topic, s.partition, s.controller_epoch AS writer_epoch, why,
               s.leader, s.leader_epoch, s.isr
        FROM (SELECT run, {_KEY}, data.why, posexplode(data.partitions) AS (place, s) FROM LeadershipWritten)
        UNION ALL
        SELECT run, {_KEY}, place, s.topic, s.partition, epoch, 'loaded', s.leader, s.leader_epoch, s.isr
        FROM (SELECT run, {_KEY}, data.epoch, posexplode(data.partitions) AS (place, s) FROM ContextLoaded)""",
    "states": f"""
        SELECT * FROM named_states
        UNION ALL
        SELECT d.run, d.us, d.node, d.incarnation, d.seq, 0, d.topic, p.partition, d.controller_epoch, 'deleted',
               -1L, -1L, array()
        FROM (SELECT run, {_KEY}, controller_epoch, explode(array_distinct(data.deleted)) AS topic FROM TopicsChanged) d
        JOIN (SELECT DISTINCT run, topic, partition FROM named_states) p ON p.run = d.run AND p.topic = d.topic""",
    "kept_states": f"""
        SELECT *, lag(why) OVER in_turn AS why_before, lag(leader) OVER in_turn AS leader_before,
               lag(isr) OVER in_turn AS isr_before, lead(us) OVER in_turn AS next_us
        FROM (SELECT *, max(writer_epoch) OVER (
                        PARTITION BY run, topic, partition ORDER BY {_KEY}, place
                        ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS newest_epoch
              FROM states)
        WHERE writer_epoch = newest_epoch
        WINDOW in_turn AS (PARTITION BY run, topic, partition ORDER BY {_KEY}, place)""",
    "classified_states": f"""
        SELECT *, why NOT IN ('loaded', 'deleted', {_in(NO_ELECTION)}) AND leader >= 0
                  AND (is_first OR leader <> leader_before) AS is_election,
               NOT is_first AND why <> 'deleted' AND size(array_except(isr_before, isr)) > 0 AS is_shrink,
               NOT is_first AND why <> 'deleted' AND size(array_except(isr, isr_before)) > 0 AS is_expand
        FROM (SELECT *, why_before IS NULL OR why_before = 'deleted' AS is_first FROM kept_states)""",
    "gone_brokers": f"""
        SELECT run, {_KEY}, concat('broker-', broker) AS gone
        FROM (SELECT run, {_KEY}, explode(data.dead) AS broker FROM BrokersChanged)
        UNION ALL
        SELECT DISTINCT e.run, e.us, e.node, e.incarnation, e.seq, b.node
        FROM reign_times e JOIN BrokerRegistered b ON b.run = e.run AND b.us <= e.us
        WHERE NOT array_contains(transform(e.ready.live, broker -> concat('broker-', broker)), b.node)""",
    "gone_registrations": """
        SELECT g.run, g.gone, g.us, max_by(r.incarnation, struct(r.us, r.incarnation, r.seq)) AS incarnation
        FROM gone_brokers g JOIN BrokerRegistered r ON r.run = g.run AND r.node = g.gone AND r.us <= g.us
        GROUP BY g.run, g.gone, g.us""",
    "gone_timeouts": """
        SELECT g.run, g.gone, g.us,
               coalesce(max_by(o.data.timeout_ms, struct(o.us, o.incarnation, o.seq)), min(s.session_timeout_ms))
                   AS timeout_ms
        FROM gone_brokers g JOIN settings s ON s.run = g.run
        LEFT JOIN SessionOpened o ON o.run = g.run AND o.node = g.gone AND o.us <= g.us
        GROUP BY g.run, g.gone, g.us
        HAVING timeout_ms IS NOT NULL""",
    "silences": """
        SELECT g.run, g.gone, g.us,
               CASE WHEN (g.us - max(s.us)) * 2 > min(t.timeout_ms) * 3000 THEN g.us - min(t.timeout_ms) * 1000
                    ELSE max(s.us) END AS began_us
        FROM gone_registrations g
        JOIN gone_timeouts t ON t.run = g.run AND t.gone = g.gone AND t.us = g.us
        JOIN records s ON s.run = g.run AND s.node = g.gone AND s.incarnation = g.incarnation AND s.us <= g.us
        GROUP BY g.run, g.gone, g.us""",
    "known_marks": f"""
        SELECT run, data.target AS node, us, false AS is_up FROM FaultInjected WHERE data.fault IN ({_in(DOWN_FAULTS)})
        UNION ALL SELECT run, data.target, us, true FROM FaultInjected WHERE data.fault IN ({_in(UP_FAULTS)})
        UNION ALL SELECT run, node, us, false FROM PointReached
        UNION ALL SELECT run, node, us, false FROM ProcessExiting
        UNION ALL SELECT run, node, us, true FROM BrokerRegistered
        UNION ALL SELECT run, concat('broker-', broker), us, true
                  FROM (SELECT run, us, explode(concat(data.new, data.bounced)) AS broker FROM BrokersChanged)""",
    "surprises": """
        SELECT g.run, g.gone, g.us
        FROM gone_brokers g LEFT JOIN known_marks k ON k.run = g.run AND k.node = g.gone AND k.us <= g.us
        GROUP BY g.run, g.gone, g.us
        HAVING coalesce(max_by(k.is_up, struct(k.us, k.is_up)), true)""",
    "marks": """
        SELECT * FROM known_marks
        UNION ALL SELECT g.run, g.gone, coalesce(s.began_us, g.us), false
                  FROM surprises g LEFT JOIN silences s ON s.run = g.run AND s.gone = g.gone AND s.us = g.us""",
    "down_times": """
        SELECT run, node, us AS fell_us, lead(us) OVER (PARTITION BY run, node ORDER BY us, is_up) AS up_us, is_up
        FROM (SELECT *, lag(is_up, 1, true) OVER (PARTITION BY run, node ORDER BY us, is_up) AS was_up FROM marks)
        WHERE is_up <> was_up""",
    "leader_spans": """
        SELECT s.run, s.topic, s.partition, s.leader,
               least(s.us, e.us) AS since_us, least(coalesce(s.next_us, e.us), e.us) AS until_us
        FROM kept_states s JOIN run_ends e ON e.run = s.run
        WHERE s.why <> 'deleted'""",
    "leaderless_spans": """
        SELECT run, topic, partition, until_us - since_us AS us FROM leader_spans WHERE leader < 0
        UNION ALL
        SELECT s.run, s.topic, s.partition, greatest(least(s.until_us, coalesce(d.up_us, s.until_us))
                                                     - greatest(s.since_us, d.fell_us), 0)
        FROM leader_spans s JOIN down_times d
          ON d.run = s.run AND d.node = concat('broker-', s.leader) AND NOT d.is_up
        WHERE s.leader >= 0""",
    "partitions": f"""
        SELECT j.*, coalesce(w.writes, 0) AS writes, {_ms("coalesce(l.us, 0)")} AS leaderless_ms
        FROM (SELECT run, topic, partition, last.leader, last.leader_epoch, last.isr,
                     clean_elections, unclean_elections,
                     isr_shrinks, isr_expands
              FROM (SELECT run, topic, partition,
                           max_by(CASE WHEN why <> 'deleted' THEN struct(leader, leader_epoch, isr) END,
                                  struct({_KEY}, place)) AS last,
                           count_if(is_election AND why <> '{UNCLEAN}') AS clean_elections,
                           count_if(is_election AND why = '{UNCLEAN}') AS unclean_elections,
                           count_if(is_shrink) AS isr_shrinks, count_if(is_expand) AS isr_expands
                    FROM classified_states GROUP BY run, topic, partition)) j
        LEFT JOIN (SELECT run, topic, partition, count(*) AS writes FROM states
                   WHERE why NOT IN ('loaded', 'deleted') GROUP BY run, topic, partition) w
          ON w.run = j.run AND w.topic = j.topic AND w.partition = j.partition
        LEFT JOIN (SELECT run, topic, partition, sum(us) AS us FROM leaderless_spans GROUP BY run, topic, partition) l
          ON l.run = j.run AND l.topic = j.topic AND l.partition = j.partition""",
    "elections": """
        SELECT w.run, w.why, w.records, w.partitions, coalesce(j.elected, 0) AS elected
        FROM (SELECT run, data.why, count(*) AS records, sum(size(data.partitions)) AS partitions
              FROM LeadershipWritten GROUP BY run, data.why) w
        LEFT JOIN (SELECT run, why, count_if(is_election) AS elected FROM classified_states GROUP BY run, why) j
          ON j.run = w.run AND j.why = w.why""",
    "failed_elections": """
        SELECT run, why, refused.error, count(*) AS partitions
        FROM (SELECT run, data.why, explode(data.partitions) AS refused FROM LeadershipNotWritten)
        GROUP BY run, why, refused.error""",
}

_REQUESTS = {
    "ranked_requests": """
        SELECT s.run, s.data.event, s.data.api, s.data.attempt, s.data.partitions, a.us - s.us AS waited_us,
               f.seq AS failed,
               row_number() OVER (PARTITION BY s.run, s.data.event, s.data.api
                                  ORDER BY a.us - s.us ASC NULLS LAST) AS place,
               count(a.us) OVER (PARTITION BY s.run, s.data.event, s.data.api) AS n
        FROM RequestSent s
        LEFT JOIN answers a ON a.run = s.run AND a.node = s.node AND a.incarnation = s.incarnation AND a.seq = s.seq
        LEFT JOIN (SELECT DISTINCT run, node, incarnation, cause AS seq FROM RequestFailed) f
          ON f.run = s.run AND f.node = s.node AND f.incarnation = s.incarnation AND f.seq = s.seq""",
    "requests": f"""
        SELECT run, event, api, count(*) AS sent, count_if(attempt > 1) AS resent, sum(partitions) AS partitions,
               count(waited_us) AS answered, count(failed) AS failed,
               {_ms(f"max(CASE WHEN place = {_rank(50)} THEN waited_us END)")} AS p50_ms,
               {_ms(f"max(CASE WHEN place = {_rank(99)} THEN waited_us END)")} AS p99_ms,
               {_ms("max(waited_us)")} AS max_ms
        FROM ranked_requests GROUP BY run, event, api""",
    "refusals": f"""
        SELECT run, api, error, count_if(whole) AS requests, count_if(NOT whole) AS partitions
        FROM (SELECT run, data.api, data.error, true AS whole FROM ResponseReceived WHERE data.error <> '{NO_ERROR}'
              UNION ALL SELECT run, api, refused.error, false
                        FROM (SELECT run, data.api, explode(data.refused) AS refused FROM ResponseReceived))
        GROUP BY run, api, error""",
    "fence_hits": f"""
        SELECT run, data.fence, node, data.what, data.offered, data.known, count(*) AS hits,
               count_if(data.switched_off) AS let_through, {_ms("min(us)")} AS first_at_ms
        FROM FenceHit GROUP BY run, data.fence, node, data.what, data.offered, data.known""",
    "event_steps": f"""
        SELECT run, data.event, 'queued' AS step, NULL AS took_us, false AS not_done FROM EventQueued
        UNION ALL SELECT run, data.event, 'preempted', NULL, false FROM EventPreempted
        UNION ALL SELECT run, data.event, 'started', {_us("data.queued_ms")}, false FROM EventStarted
        UNION ALL SELECT run, data.event, 'ended', {_us("data.took_ms")}, data.outcome <> 'done'
                  FROM EventEnded""",
    "events": f"""
        SELECT run, event, count_if(step = 'queued') AS queued, count_if(step = 'started') AS started,
               count_if(step = 'ended') AS ended, count_if(step = 'preempted') AS preempted,
               count_if(not_done) AS not_done,
               {_ms(f"max(CASE WHEN step = 'started' AND place = {_rank(50)} THEN took_us END)")} AS queued_p50_ms,
               {_ms(f"max(CASE WHEN step = 'started' AND place = {_rank(99)} THEN took_us END)")} AS queued_p99_ms,
               {_ms(f"max(CASE WHEN step = 'ended' AND place = {_rank(50)} THEN took_us END)")} AS took_p50_ms,
               {_ms(f"max(CASE WHEN step = 'ended' AND place = {_rank(99)} THEN took_us END)")} AS took_p99_ms,
               {_ms("max(CASE WHEN step = 'ended' THEN took_us END)")} AS took_max_ms
        FROM (SELECT *, row_number() OVER (PARTITION BY run, event, step ORDER BY took_us) AS place,
                     count(*) OVER (PARTITION BY run, event, step) AS n
              FROM event_steps)
        GROUP BY run, event""",
    "ordered_moments": f"""
        SELECT run, {_KEY}, 'fault' AS kind, data.fault AS what, data.target, data.role AS note FROM FaultInjected
        UNION ALL SELECT run, {_KEY}, 'point', data.action, node, data.point FROM PointReached
        UNION ALL SELECT run, {_KEY}, 'step', data.step, '', data.note FROM StepReached""",
    "moments": f"""
        SELECT run, {_ms("us")} AS at_ms, kind, what, target, note,
               row_number() OVER (PARTITION BY run ORDER BY {_KEY}) AS place
        FROM ordered_moments""",
}

_TOTALS = {
    "active_times": """
        SELECT t.run, least(t.ready.us, e.us) AS since_us,
               greatest(least(coalesce(t.ended_us, e.us), e.us), least(t.ready.us, e.us)) AS until_us
        FROM reign_times t JOIN run_ends e ON e.run = t.run WHERE t.ready IS NOT NULL""",
    "totals": f"""
        SELECT r.run, r.started_ms, {_ms("e.us")} AS ended_at_ms, r.nodes, r.incarnations, r.records,
               coalesce(c.controllers, 0) AS controllers,
               {_ms("(e.us - t.first_us - t.active_us)")} AS without_controller_ms,
               coalesce(p.partitions, 0) AS partitions,
               {_ms("coalesce(l.us, 0)")} AS leaderless_ms,
               coalesce(p.leaderless_partitions, 0) AS leaderless_partitions,
               coalesce(p.clean_elections, 0) AS clean_elections, coalesce(p.unclean_elections, 0) AS unclean_elections,
               coalesce(p.isr_shrinks, 0) AS isr_shrinks, coalesce(p.isr_expands, 0) AS isr_expands,
               coalesce(q.requests, 0) AS requests, coalesce(f.hits, 0) AS fence_hits,
               coalesce(f.let_through, 0) AS let_through
        FROM (SELECT run, min(wall_ms) AS started_ms, count(DISTINCT node) AS nodes,
                     count(DISTINCT node, incarnation) AS incarnations, count(*) AS records
              FROM records GROUP BY run) r
        JOIN run_ends e ON e.run = r.run
        LEFT JOIN (SELECT run, count(*) AS controllers FROM elections_of_controllers GROUP BY run) c ON c.run = r.run
        LEFT JOIN (SELECT run, min(since_us) AS first_us, sum(until_us - since_us) AS active_us
                   FROM active_times GROUP BY run) t
          ON t.run = r.run
        LEFT JOIN (SELECT run, count(*) AS partitions, sum(clean_elections) AS clean_elections,
                          sum(unclean_elections) AS unclean_elections, sum(isr_shrinks) AS isr_shrinks,
                          sum(isr_expands) AS isr_expands,
                          count_if(leaderless_ms > 0) AS leaderless_partitions
                   FROM partitions GROUP BY run) p ON p.run = r.run
        LEFT JOIN (SELECT run, sum(us) AS us FROM leaderless_spans GROUP BY run) l ON l.run = r.run
        LEFT JOIN (SELECT run, count(*) AS requests FROM RequestSent GROUP BY run) q ON q.run = r.run
        LEFT JOIN (SELECT run, count(*) AS hits, count_if(data.switched_off) AS let_through
                   FROM FenceHit GROUP BY run) f
          ON f.run = r.run""",
}


def _first_known(field: str) -> str:
    """Return SQL for the value of `field` in the first `RunDescribed` of a run that has one."""
    known = f"data.{field} IS NOT NULL AND CAST(data.{field} AS STRING) <> ''"
    return f"min_by(data.{field}, struct({_KEY})) FILTER (WHERE {known}) AS {field}"


_SETTINGS = {
    "described": f"""
        SELECT run, {", ".join(_first_known(name) for name in SETTING_NAMES)}
        FROM RunDescribed GROUP BY run""",
    "settings": f"""
        SELECT r.run, d.world, coalesce(d.brokers, r.brokers) AS brokers,
               coalesce(d.partitions, c.partitions) AS partitions,
               coalesce(d.session_timeout_ms, s.timeout_ms) AS session_timeout_ms,
               d.seed, d.fault, d.software_version, d.software_commit
        FROM (SELECT run, nullif(count(DISTINCT CASE WHEN node RLIKE '^{BROKER_NODE}$' THEN node END), 0) AS brokers
              FROM records GROUP BY run) r
        LEFT JOIN described d ON d.run = r.run
        LEFT JOIN (SELECT run, max(data.partitions) AS partitions FROM ControllerReady WHERE data.partitions > 0
                   GROUP BY run) c
          ON c.run = r.run
        LEFT JOIN (SELECT run, max(data.timeout_ms) AS timeout_ms FROM SessionOpened GROUP BY run) s
          ON s.run = r.run""",
}

VIEWS: dict[str, str] = {**_SETTINGS, **_REIGNS, **_FAILOVERS, **_PARTITIONS, **_REQUESTS, **_TOTALS}
"""The SQL of each view, after those that it reads. The first read `records` and a view for each type in `TYPES`."""

TYPES = tuple(name for name in PAYLOAD_BY_TYPE if any(re.search(rf"\b{name}\b", sql) for sql in VIEWS.values()))
"""The record types that the views read."""

KEPT_VIEWS = (
    "settings",
    "elections_of_controllers",
    "controller_gone",
    "reign_ends",
    "reign_notices",
    "reign_times",
    "run_ends",
    "kept_states",
    "down_times",
    "leader_spans",
    "leaderless_spans",
    "partitions",
)
"""The views that are computed only once, because several others read them."""
