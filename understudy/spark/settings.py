"""Holds the settings with which a command runs Spark."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from understudy.clusters.java import JavaRuntime, choose_java
from understudy.spark import class_cache
from understudy.spark.failures import redacted
from understudy.spark.gateway import STOP_TIMEOUT_S
from understudy.spark.versions import this_spark

LOCAL_MASTER = "local[*]"
STANDALONE = "spark://"
CONNECT = "sc://"

DRIVER_MEMORY = "512m"
"""Heap size of the driver's Java, which only passes bytes on: the work is done by Python workers."""

EXECUTOR_TIMEOUT_S = 120.0

Progress: TypeAlias = Callable[[str], None]

ROOT = Path(__file__).resolve().parents[2]
"""The folder of the package."""


def no_progress(step: str) -> None:
    """Show no progress."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkSettings:
    """The settings with which Spark is started, or with which a Spark Connect server is used.

    Attributes:
        java: the Java of the driver; None for a Spark Connect server, which has its own.
        master: the master of Spark, as in the option --master of spark-submit, or the URL of a Spark Connect server.
        memory: the heap of the driver's Java, as in `-Xmx`.
        has_mllib: whether the driver's Java finds MLlib, which no command uses.
        flags: further flags of Java.
        stop_timeout_s: how long Java may take to end before it is killed.
        executor_timeout_s: how long a cluster may leave this program without an executor before it gives up.
    """

    java: JavaRuntime | None
    master: str = LOCAL_MASTER
    memory: str = DRIVER_MEMORY
    has_mllib: bool = False
    flags: tuple[str, ...] = ()
    stop_timeout_s: float = STOP_TIMEOUT_S
    executor_timeout_s: float = EXECUTOR_TIMEOUT_S

    @classmethod
    def chosen(
        cls,
        *,
        master: str = LOCAL_MASTER,
        memory: str | None = None,
        has_mllib: bool = False,
        java_home: str | os.PathLike[str] | None = None,
    ) -> SparkSettings:
        """Return settings with the Java to use, if the master needs one, and the cache of classes, if there is one.

        Raises:
            JavaNotFound: there is no Java.
        """
        if master.startswith(CONNECT):
            return cls(java=None, master=master)
        return cls.with_class_cache(choose_java(java_home), master=master, memory=memory, has_mllib=has_mllib)

    @classmethod
    def with_class_cache(
        cls, java: JavaRuntime, *, master: str = LOCAL_MASTER, memory: str | None = None, has_mllib: bool = False
    ) -> SparkSettings:
        """Return settings that use the cache of classes, if there is one."""
        return cls(
            java=java,
            master=master,
            memory=memory or DRIVER_MEMORY,
            has_mllib=has_mllib,
            flags=class_cache.flags(java),
        )

    @property
    def is_local(self) -> bool:
        return self.master.startswith("local")

    @property
    def announcement(self) -> str:
        """A line that says what starts."""
        return f"Spark runs at {self.redacted_master}" if self.java is None else f"Spark starts with {self.java}"

    @property
    def redacted_master(self) -> str:
        """The master without its secrets."""
        return redacted(self.master)

    @property
    def engine(self) -> str:
        """The versions of Spark and Java, and the master."""
        if self.java is None:
            return f"{this_spark()}, {self.redacted_master}"
        version = "" if self.java.version is None else f" {self.java.version}"
        return f"{this_spark()} on Java{version}, {self.redacted_master}"
