"""`TOOLS` has all tools by name."""

from __future__ import annotations

from understudy.kafka_tools import (
    broker_api_versions,
    cluster_tool,
    configs,
    consume,
    consumer_perf,
    delete_records,
    dump_log,
    get_offsets,
    groups,
    leader_election,
    log_dirs,
    preferred_replica_election,
    produce,
    producer_perf,
    reassign,
    topics,
)
from understudy.kafka_tools.console import Tool
from understudy.kafka_tools.zookeeper import shell

_MODULES = (
    topics,
    configs,
    groups,
    reassign,
    leader_election,
    preferred_replica_election,
    delete_records,
    log_dirs,
    dump_log,
    get_offsets,
    produce,
    consume,
    broker_api_versions,
    cluster_tool,
    shell,
    producer_perf,
    consumer_perf,
)
TOOLS: dict[str, Tool] = {module.TOOL.name: module.TOOL for module in _MODULES}
