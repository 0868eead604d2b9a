"""The verbs grouped by use: the front page that `understudy --help` prints, and the list of `understudy help`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple


class Group(NamedTuple):
    """Verbs for one use.

    Attributes:
        verbs: all of them, in the order of the whole list.
        begin: those that the front page shows.
    """

    title: str
    verbs: tuple[str, ...]
    begin: tuple[str, ...] = ()


GROUPS: Final = (
    Group("Learning", ("demo", "lesson", "plan"), begin=("demo", "lesson", "plan")),
    Group(
        "A cluster",
        ("up", "status", "watch", "page", "mirror", "health", "zookeeper"),
        begin=("up", "status", "watch"),
    ),
    Group(
        "Faults",
        ("kill", "pause", "resume", "stop", "start", "restart", "depose", "isolate", "heal", "arm", "soak"),
        begin=("kill", "pause", "soak"),
    ),
    Group(
        "Kafka's tools",
        (
            *("topics", "configs", "groups", "reassign", "leader-election", "delete-records", "get-offsets"),
            *("log-dirs", "dump-log", "produce", "consume", "producer-perf", "consumer-perf"),
        ),
        begin=("topics", "produce", "consume"),
    ),
    Group(
        "Experiments",
        ("experiment", "simulate", "hunt", "crash-points", "mutants", "sweep"),
        begin=("experiment", "simulate", "hunt"),
    ),
    Group("Analysis", ("check", "replay", "compare", "ingest", "import-kafka"), begin=("check", "replay", "compare")),
    Group("This command", ("help", "completion")),
)
"""Every verb is in one group; a test compares them with the parser."""

SLOGAN: Final = "A Kafka control plane you can kill."


def front_page(usage: str, descriptions: Mapping[str, str]) -> str:
    """Return the help of the whole command: the verbs to begin with, in at most 24 lines of 80 columns.

    Args:
        usage: the line with the flags of the command itself, with its end of line.
        descriptions: what each verb does, by its name.
    """
    title_width = max(len(group.title) for group in GROUPS if group.begin)
    verb_width = max(len(verb) for group in GROUPS for verb in group.begin)
    lines = [usage, f"{SLOGAN}\n", "\n"]
    for group in GROUPS:
        for place, verb in enumerate(group.begin):
            title = "" if place else group.title
            lines.append(f"{title:<{title_width}}  {verb:<{verb_width}}  {descriptions[verb]}\n")
    last = f"`understudy help` lists all {len(descriptions)} verbs, `understudy help VERB` explains one."
    return "".join((*lines, "\n", f"{last}\n"))


def whole_list(descriptions: Mapping[str, str]) -> str:
    """Return the page of `understudy help`: every verb with what it does, by group."""
    return "\n".join(_list_lines(descriptions)) + "\n"


def _list_lines(descriptions: Mapping[str, str]) -> Iterator[str]:
    width = max(map(len, descriptions))
    yield "usage: understudy VERB ..."
    for group in GROUPS:
        yield ""
        yield group.title
        for verb in group.verbs:
            yield f"  {verb:<{width}}  {descriptions[verb]}"
    yield ""
    yield "`understudy help VERB` explains one, as `understudy VERB --help` does."
