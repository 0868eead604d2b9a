"""Kafka's JVMs start with the archive of their classes; without it, `make interop` takes minutes more."""

from __future__ import annotations

import subprocess
from dataclasses import replace

from devtools.judges.class_archive import merged
from tests.interop.tools import TIMEOUT_S
from understudy.clusters.processes.apache_kafka import ApacheKafka


def test_java_maps_the_archive_of_kafkas_classes(kafka: ApacheKafka) -> None:
    # By default Java starts without an archive that does not fit.
    strict = replace(kafka, jvm_options=(*kafka.jvm_options, "-Xshare:on"))
    command = strict.command("org.apache.kafka.tools.TopicCommand", "--version")
    run = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S)
    assert (run.returncode, run.stdout.split()[0]) == (0, "3.9.1"), run.stdout + run.stderr


def test_lists_of_loaded_classes_are_merged_without_the_numbers_of_one_process() -> None:
    first = "# made by Java\njava/lang/Object id: 0\nkafka/Kafka id: 700\n@lambda-proxy kafka/Kafka run ()V\n"
    second = "# made by Java\njava/lang/Object id: 0\nkafka/Log id: 700\nkafka/Odd id: 9 super: 0 source: file:/jar\n"
    assert merged([first, second]) == [
        "java/lang/Object",
        "kafka/Kafka",
        "@lambda-proxy kafka/Kafka run ()V",
        "kafka/Log",
    ]
