"""Coordinates the groups whose partition of `__consumer_offsets` this broker leads. Mirrors `kafka.coordinator.group`.

Decisions are in `group_state`, `group_metadata`, `member_metadata`, `group_offsets`, `group_records` and
`group_loading`: they wait for nothing. `group_metadata_manager` keeps groups and stores them, `rebalances` leads a
group from one generation to the next, and `group_coordinator` is what requests call.
"""
