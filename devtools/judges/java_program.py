"""Compiles and runs a small Java program of `devtools/judges/java` with Apache Kafka's classes."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

from devtools.judges.maven import kafka_libs
from understudy.clusters.processes.kafka_jars import NotFetched

SOURCES = Path(__file__).parent / "java"
TIMEOUT_S = 300


def answers_of(source: str, lines: Iterable[str], folder: Path) -> list[str]:
    """Return the lines that a program prints for lines of its standard input.

    Args:
        source: the file of its class below `SOURCES`.
        folder: the folder for the compiled class.

    Raises:
        NotFetched: Kafka or a JDK is missing.
    """
    javac, java = shutil.which("javac"), shutil.which("java")
    if javac is None or java is None:
        raise NotFetched("no javac on the PATH; install a JDK, 17 or newer")
    libs, file = kafka_libs(), SOURCES / source
    subprocess.run([javac, "-cp", f"{libs}/*", "-d", str(folder), str(file)], check=True, timeout=TIMEOUT_S)
    asked = subprocess.run(
        [java, "-cp", f"{folder}:{libs}/*", file.stem],
        input="".join(f"{line}\n" for line in lines),
        capture_output=True,
        text=True,
        check=True,
        timeout=TIMEOUT_S,
    )
    return asked.stdout.splitlines()
