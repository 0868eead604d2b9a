"""The verbs of the command in one table: what each does and which module runs it; and the two lists of them.

`understudy --help` prints the front page, `understudy help` the whole list. A module is imported when its verb is used.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from understudy.clusters.verb_table import VERBS as ON_A_RUNNING_CLUSTER
from understudy.kafka_tools.names import NAMES as TOOLS


class ListedVerb(NamedTuple):
    """One verb.

    Attributes:
        meaning: what it does, in a few words.
        module: the module of this package that has its `add_arguments` and `run`.
    """

    meaning: str
    module: str


class VerbGroup(NamedTuple):
    """Verbs for one use.

    Attributes:
        verbs: all of them, in the order of the whole list.
        begin: the verbs that the front page shows.
    """

    title: str
    verbs: Mapping[str, ListedVerb]
    begin: tuple[str, ...] = ()


GROUPS: Final = (
    VerbGroup(
        "Learning",
        {
            "demo": ListedVerb("kill a controller and watch another take over", "demo"),
            "lesson": ListedVerb("learn how controllers fail over, by example", "lesson"),
            "plan": ListedVerb("show where replicas, records and members would go", "plan"),
        },
        begin=("demo", "lesson", "plan"),
    ),
    VerbGroup(
        "A cluster",
        {
            "up": ListedVerb("run brokers and a ZooKeeper until Ctrl-C", "up"),
            "status": ListedVerb("show the controller, the brokers and the partitions", "status"),
            "watch": ListedVerb("show a run in a browser, live or afterwards", "watch"),
            "page": ListedVerb("write the page of a run as one HTML file", "page"),
            "mirror": ListedVerb("copy topics and group offsets to another cluster", "mirror"),
            "health": ListedVerb("check that a broker or a ZooKeeper server answers", "health"),
            "zookeeper": ListedVerb("run a ZooKeeper server in the foreground", "zookeeper"),
        },
        begin=("up", "status", "watch"),
    ),
    VerbGroup(
        "Faults",
        {
            **{name: ListedVerb(verb.meaning, "verbs") for name, verb in ON_A_RUNNING_CLUSTER.items()},
            "soak": ListedVerb("inject faults into a running cluster for hours", "soak"),
        },
        begin=("kill", "pause", "soak"),
    ),
    VerbGroup(
        "Kafka's tools",
        {name: ListedVerb(meaning, "tools") for name, (_, meaning) in TOOLS.items()},
        begin=("topics", "produce", "consume"),
    ),
    VerbGroup(
        "Experiments",
        {
            "experiment": ListedVerb("run failure experiments from files", "experiment"),
            "simulate": ListedVerb("run seeds in the simulator, or replay one", "simulate"),
            "hunt": ListedVerb("run seeds, and shrink and report each that fails", "hunt"),
            "crash-points": ListedVerb("inject faults at each point of the controller's procedures", "crash_points"),
            "mutants": ListedVerb("switch off each fence and fix: which check notices?", "mutants"),
            "sweep": ListedVerb("run a failover for every combination of settings", "sweep"),
        },
        begin=("experiment", "simulate", "hunt"),
    ),
    VerbGroup(
        "Analysis",
        {
            "collect": ListedVerb("bring the event logs of several machines together", "collect"),
            "check": ListedVerb("check the invariants over the logs of a run", "check"),
            "replay": ListedVerb("compute metrics from event logs, of runs side by side", "replay"),
            "compare": ListedVerb("compare the failovers of runs with different settings", "compare"),
            "ingest": ListedVerb("bring event logs into a lake of Delta tables", "ingest"),
            "lake": ListedVerb("list, restore or delete old versions of a lake", "lake"),
            "import-kafka": ListedVerb("turn Apache Kafka's logs into event logs", "import_kafka"),
        },
        begin=("check", "replay", "compare"),
    ),
    VerbGroup(
        "This command",
        {
            "help": ListedVerb("list all verbs, or explain one", "help"),
            "completion": ListedVerb("print the script that completes words in a shell", "completion"),
        },
    ),
)

VERBS: Final[Mapping[str, ListedVerb]] = {name: verb for group in GROUPS for name, verb in group.verbs.items()}
"""Every verb by its name."""

SLOGAN: Final = "A Kafka control plane you can kill."


def front_page(usage: str) -> str:
    """Return the help of the whole command: the verbs to begin with, in at most 24 lines of 80 columns.

    Args:
        usage: the line with the flags of the command itself, with its end of line.
    """
    title_width = max(len(group.title) for group in GROUPS if group.begin)
    verb_width = max(len(verb) for group in GROUPS for verb in group.begin)
    lines = [usage, f"{SLOGAN}\n", "\n"]
    for group in GROUPS:
        for place, verb in enumerate(group.begin):
            title = "" if place else group.title
            lines.append(f"{title:<{title_width}}  {verb:<{verb_width}}  {VERBS[verb].meaning}\n")
    last = f"`understudy help` lists all {len(VERBS)} verbs, `understudy help VERB` explains one."
    return "".join((*lines, "\n", f"{last}\n"))


def whole_list() -> str:
    """Return the page of `understudy help`: every verb with what it does, by group."""
    width = max(map(len, VERBS))
    lines = ["usage: understudy VERB ...", ""]
    for group in GROUPS:
        lines += [group.title, *(f"  {name:<{width}}  {verb.meaning}" for name, verb in group.verbs.items()), ""]
    lines.append("`understudy help VERB` explains one, as `understudy VERB --help` does.")
    return "\n".join(lines) + "\n"
