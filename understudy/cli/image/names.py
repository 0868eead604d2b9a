"""The names under which programs of the Kafka and ZooKeeper images are called, and what each runs.

`install` makes them in an image; `scripts` runs them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from understudy.kafka_tools.names import NAMES as TOOLS

TOOL_SCRIPTS: Final[Mapping[str, str]] = {script.removesuffix(".sh"): verb for verb, (script, _) in TOOLS.items()}
"""Verbs of `understudy` by the names of Kafka's scripts, without `.sh`."""

SERVERS: Final[Mapping[str, str]] = {
    "kafka-server-start": "kafka",
    "zookeeper-server-start": "zookeeper",
    "start-kafka": "kafka",
}
"""Servers by the names of the scripts that start them."""

STOPPERS: Final = ("kafka-server-stop", "zookeeper-server-stop")
PROGRAMS: Final = ("cub", "ub", "nc")
OTHERS: Final = ("kafka-storage", "kafka-run-class", "zkServer", "zkCli")

SCRIPTS: Final = (*TOOL_SCRIPTS, *SERVERS, *STOPPERS, *OTHERS)
"""Every script, which is installed with and without `.sh`."""

CLASSES: Final[Mapping[str, str]] = {
    "kafka.tools.GetOffsetShell": "get-offsets",
    "org.apache.kafka.tools.GetOffsetShell": "get-offsets",
    "kafka.admin.TopicCommand": "topics",
    "org.apache.kafka.tools.TopicCommand": "topics",
    "kafka.admin.ConfigCommand": "configs",
    "kafka.admin.ConsumerGroupCommand": "groups",
    "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand": "groups",
    "kafka.tools.ConsoleProducer": "produce",
    "org.apache.kafka.tools.ConsoleProducer": "produce",
    "kafka.tools.ConsoleConsumer": "consume",
    "org.apache.kafka.tools.consumer.ConsoleConsumer": "consume",
    "kafka.tools.DumpLogSegments": "dump-log",
    "org.apache.kafka.tools.DumpLogSegments": "dump-log",
}
"""Verbs of `understudy` by the classes that people run with `kafka-run-class`."""

TOOL_FOLDERS: Final = ("/opt/kafka/bin", "/opt/bitnami/kafka/bin", "/opt/bitnami/zookeeper/bin", "/kafka/bin")
"""Folders of the images in which people name a script by its path."""

PATH_FOLDER: Final = "/usr/local/bin"

SHELL_FILES: Final[Mapping[str, str]] = {
    "/etc/confluent/docker/bash-config": "",
    "/etc/confluent/docker/configure": "understudy-image configure",
    "/etc/confluent/docker/ensure": "",
    "/etc/confluent/docker/launch": "exec understudy-image run",
    "/etc/confluent/docker/run": 'for each in "$@"; do export "$each"; done\nexec understudy-image run',
    "/etc/kafka/docker/bash-config": "",
    "/etc/kafka/docker/configureDefaults": "",
    "/etc/kafka/docker/configure": "understudy-image configure",
    "/etc/kafka/docker/launch": "exec understudy-image run",
    "/etc/kafka/docker/run": 'for each in "$@"; do export "$each"; done\nexec understudy-image run',
    "/opt/bitnami/scripts/kafka/entrypoint.sh": 'exec understudy-image "$@"',
    "/opt/bitnami/scripts/kafka/setup.sh": "understudy-image configure",
    "/opt/bitnami/scripts/kafka/run.sh": "exec understudy-image run",
    "/opt/bitnami/scripts/zookeeper/entrypoint.sh": 'exec understudy-image "$@"',
    "/opt/bitnami/scripts/zookeeper/run.sh": "exec understudy-image zookeeper",
    "/docker-entrypoint.sh": 'exec understudy-image "$@"',
}
"""Shell scripts of the images by path. Programs write to them and source them, so that each is a file of its own."""
