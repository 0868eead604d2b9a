"""`TOOLS` has all tools by name."""

from __future__ import annotations

from understudy.tools import (
    configs,
    delete_records,
    get_offsets,
    groups,
    leader_election,
    log_dirs,
    reassign,
    topics,
)
from understudy.tools.console import Tool

TOOLS: dict[str, Tool] = {
    module.TOOL.name: module.TOOL
    for module in (topics, configs, groups, reassign, leader_election, delete_records, log_dirs, get_offsets)
}
