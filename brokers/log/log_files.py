"""Names the files and folders of logs. Mirrors `LogFileUtils`, and the names in `UnifiedLog` and `LocalLog`.

A partition's folder is `TOPIC-PARTITION`; the files of a segment begin with its base offset in 20 digits.
"""

from __future__ import annotations

from typing import Final

from understudy.foundation.cluster.identifiers import TopicPartition

LOG: Final = ".log"
OFFSET_INDEX: Final = ".index"
TIME_INDEX: Final = ".timeindex"
TRANSACTION_INDEX: Final = ".txnindex"
SNAPSHOT: Final = ".snapshot"
DELETED: Final = ".deleted"
CLEANED: Final = ".cleaned"
SWAP: Final = ".swap"

SEGMENT_FILES: Final = (LOG, OFFSET_INDEX, TIME_INDEX, TRANSACTION_INDEX)

LEADER_EPOCH_CHECKPOINT: Final = "leader-epoch-checkpoint"
PARTITION_METADATA: Final = "partition.metadata"

DELETE_FOLDER: Final = "-delete"
STRAY_FOLDER: Final = "-stray"
FUTURE_FOLDER: Final = "-future"

MAX_FOLDER_NAME: Final = 255
_DIGITS: Final = 20


class NotALogFolder(ValueError):
    """A folder of a log directory that belongs to no partition. The message names it, and what was expected."""


def file_name(offset: int, suffix: str) -> str:
    """Return the name of the file of a segment or snapshot, `00000000000000000042.log`."""
    return f"{offset:0{_DIGITS}d}{suffix}"


def offset_of(name: str) -> int | None:
    """Return the offset that a file's name begins with; None if it begins with none."""
    digits = name.partition(".")[0]
    return int(digits) if len(digits) == _DIGITS and digits.isascii() and digits.isdigit() else None


def folder_name(topic_partition: TopicPartition) -> str:
    return f"{topic_partition.topic}-{topic_partition.partition}"


def renamed_folder(topic_partition: TopicPartition, unique: str, suffix: str) -> str:
    """Return the name of a folder whose log is to be deleted, or is stray: `TOPIC-PARTITION.UNIQUE-delete`.

    The topic is cut off if the name would become too long for a file system.
    """
    end = f"-{topic_partition.partition}.{unique}{suffix}"
    return f"{topic_partition.topic[: MAX_FOLDER_NAME - len(end)]}{end}"


def partition_of(folder: str) -> TopicPartition:
    """Return the partition of a folder, which may be one of a log that is to be deleted, is stray or is a future log.

    Raises:
        NotALogFolder: the name is not a partition folder's.
    """
    name = folder
    for suffix in (DELETE_FOLDER, STRAY_FOLDER, FUTURE_FOLDER):
        if name.endswith(suffix):
            name, dot, _ = name.removesuffix(suffix).rpartition(".")
            if not dot:
                raise NotALogFolder(_not_a_log_folder(folder))
    topic, dash, partition = name.rpartition("-")
    if not (topic and dash and partition.isascii() and partition.isdigit()):
        raise NotALogFolder(_not_a_log_folder(folder))
    return TopicPartition(topic, int(partition))


def is_partition_folder(name: str) -> bool:
    try:
        partition_of(name)
    except NotALogFolder:
        return False
    return True


def _not_a_log_folder(folder: str) -> str:
    return (
        f"Found directory {folder}, '{folder}' is not in the form of topic-partition or "
        "topic-partition.uniqueId-delete (if marked for deletion). Kafka's log directories (and children) should only "
        "contain Kafka topic data."
    )
