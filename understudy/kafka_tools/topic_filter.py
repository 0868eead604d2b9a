"""Selects the topics of a tool: by a regular expression, with or without internal topics."""

from __future__ import annotations

import re

from understudy.kafka_tools.cluster import KafkaCluster
from understudy.kafka_tools.errors import RUNTIME, ToolError, illegal_argument
from understudy.kafka_tools.options import Options


async def matching_topics(options: Options, cluster: KafkaCluster) -> list[str]:
    """Return the topics that `--topic` and `--exclude-internal` leave, sorted."""
    text = options.value("topic")
    pattern = include_list(".*" if text is None else text)
    return list(filter(pattern.fullmatch, await cluster.topics(with_internal=not options.has("exclude-internal"))))


async def existing_topics(options: Options, cluster: KafkaCluster) -> list[str]:
    """Return `matching_topics`; raises ToolError if `--topic` was given without `--if-exists` and matches nothing."""
    names, wanted = await matching_topics(options, cluster), options.value("topic")
    if wanted and not names and not options.has("if-exists"):
        raise illegal_argument(f"Topic 'Optional[{wanted}]' does not exist as expected")
    return names


def include_list(text: str) -> re.Pattern[str]:
    """Return the pattern of a list of topics: a comma is an alternative, quotes around it and blanks are removed.

    Mirrors `org.apache.kafka.server.util.TopicFilter.IncludeList`. Raises ToolError for no regular expression.
    """
    cleaned = re.sub(r"^[\"']+|[\"']+$", "", text.strip().replace(",", "|").replace(" ", ""))
    try:
        return re.compile(cleaned)
    except re.error:
        raise ToolError(RUNTIME, f"{cleaned} is an invalid regex.") from None
