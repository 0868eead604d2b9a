"""Translates the committed offsets of groups and commits them at the target. Mirrors `MirrorCheckpointTask` (KIP-545).

As there, only groups without members at the target get offsets, and none goes back.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from understudy.foundation.cluster.identifiers import TopicPartition
from understudy.foundation.cluster.java_order import strings
from understudy.kafka_tools.cluster import KafkaCluster
from understudy.kafka_tools.errors import ToolError
from understudy.kafka_tools.group_descriptions import describe_groups
from understudy.kafka_tools.mirror.copies import PartitionCopy

_WITHOUT_MEMBERS = frozenset({"Empty", "Dead"})


async def translate_groups(
    source: KafkaCluster,
    target: KafkaCluster,
    groups: re.Pattern[str],
    copies: Mapping[TopicPartition, PartitionCopy],
) -> dict[str, str]:
    """Commit the offsets of groups; return for each group what was done, for a person.

    Args:
        groups: a pattern of whole names.
        copies: by partition of the source.
    """
    done = {}
    for group in strings(await source.list_groups()):
        if groups.fullmatch(group):
            try:
                done[group] = await _translate(source, target, group, copies)
            except ToolError as error:
                done[group] = f"not translated: {error.shown_message}"
    return done


async def _translate(
    source: KafkaCluster, target: KafkaCluster, group: str, copies: Mapping[TopicPartition, PartitionCopy]
) -> str:
    wanted = {}
    for partition, offset in (await source.committed_offsets(group)).items():
        copy = copies.get(partition)
        if copy is not None and copy.is_active and (found := copy.map.translate(offset, copy.confirmed)) is not None:
            wanted[copy.target] = found
    if not wanted:
        return "no committed offsets of copied partitions"
    described = (await describe_groups(target, (group,)))[group]
    if described.state not in _WITHOUT_MEMBERS:
        return f"left as it is: it is {described.state} at the target"
    held = await target.committed_offsets(group)
    ahead = {partition: offset for partition, offset in wanted.items() if offset > held.get(partition, -1)}
    if ahead:
        await target.commit_offsets(group, ahead)
    return f"{len(ahead)} of {len(wanted)} offsets committed" if ahead else "up to date"
