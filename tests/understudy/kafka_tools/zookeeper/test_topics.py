"""`understudy topics --zookeeper` writes the znodes that Kafka's tool wrote, and needs no broker and no controller.

What it prints is compared with Kafka 2.8.2 by `tests/interop/tool_scripts/2.8.2`.
"""

from __future__ import annotations

import pytest

from tests.understudy.kafka_tools.zookeeper.bed import CONNECT, Printed, ZooKeeperBed

BOTH = ("--partitions", "1", "--replication-factor", "1")


def topics(bed: ZooKeeperBed, *words: str) -> Printed:
    return bed.run("topics", "--zookeeper", CONNECT, *words)


def test_a_new_topic_is_a_config_and_an_assignment_without_an_id(bed: ZooKeeperBed) -> None:
    created = topics(
        bed, "--create", "--topic", "orders", "--replica-assignment", "1:2,2:1", "--config", "retention.ms=5000"
    )
    assert created == Printed(0, "Created topic orders.\n", "")
    assert bed.data("/config/topics/orders") == '{"version":1,"config":{"retention.ms":"5000"}}'
    assert bed.data("/brokers/topics/orders") == (
        '{"partitions":{"0":[1,2],"1":[2,1]},"adding_replicas":{},"removing_replicas":{},"version":3}'
    )


def test_replicas_are_placed_on_registered_brokers(bed: ZooKeeperBed) -> None:
    bed.register(4, 7, 9)
    assert topics(bed, "--create", "--topic", "orders", "--partitions", "3", "--replication-factor", "3").code == 0
    described = topics(bed, "--describe", "--topic", "orders").out.splitlines()
    assert described[0] == "Topic: orders\tPartitionCount: 3\tReplicationFactor: 3\tConfigs: "
    firsts = [line.split("Replicas: ")[1].split(",")[0] for line in described[1:]]
    assert sorted(firsts) == ["4", "7", "9"]
    assert all("Leader: none" in line and line.endswith("Isr: ") for line in described[1:])


def test_replicas_go_to_different_racks_unless_the_flag_says_otherwise(bed: ZooKeeperBed) -> None:
    bed.register(1, 2, 3, racks=["a", "b"])
    create = ("--create", "--topic", "orders", "--partitions", "1", "--replication-factor", "2")
    assert "Not all brokers have rack information" in topics(bed, *create).out
    assert topics(bed, *create, "--disable-rack-aware").code == 0


@pytest.mark.parametrize("flag", ["", "--if-not-exists"])
def test_a_topic_that_exists_is_an_error_unless_the_flag_says_otherwise(bed: ZooKeeperBed, flag: str) -> None:
    bed.register(1)
    create = ("--create", "--topic", "orders", *BOTH)
    topics(bed, *create)
    again = topics(bed, *create, *filter(None, [flag]))
    if flag:
        assert again == Printed(0, "", "")
    else:
        assert again.out == "Error while executing topic command : Topic 'orders' already exists.\n"
        assert again.err == (
            "[now] ERROR org.apache.kafka.common.errors.TopicExistsException: Topic 'orders' already exists.\n"
            " (kafka.admin.TopicCommand$)\n"
        )
        assert again.code == 1


def test_a_chroot_is_neither_needed_nor_created_by_a_look(bed: ZooKeeperBed) -> None:
    assert bed.run("topics", "--zookeeper", f"{CONNECT}/kafka", "--list") == Printed(0, "", "")
    assert bed.data("/kafka") is None
    bed.make("/kafka")
    assigned = ("--topic", "t", "--replica-assignment", "1")
    assert bed.run("topics", "--zookeeper", f"{CONNECT}/kafka", "--create", *assigned).code == 0
    assert bed.data("/kafka/brokers/topics/t") is not None


def test_a_deleted_topic_is_marked_and_an_internal_one_is_not(bed: ZooKeeperBed) -> None:
    topics(bed, "--create", "--topic", "orders", "--replica-assignment", "1")
    bed.make("/brokers/topics/__consumer_offsets", data=b'{"version":1,"partitions":{"0":[1]}}')
    assert topics(bed, "--delete", "--topic", "orders").out == (
        "Topic orders is marked for deletion.\n"
        "Note: This will have no impact if delete.topic.enable is not set to true.\n"
    )
    assert bed.data("/admin/delete_topics/orders") == ""
    assert topics(bed, "--delete", "--topic", "orders").out == "Topic orders is already marked for deletion.\n"
    assert topics(bed, "--list").out == "__consumer_offsets\norders - marked for deletion\n"
    assert topics(bed, "--list", "--exclude-internal").out == "orders - marked for deletion\n"
    internal = topics(bed, "--delete", "--topic", "__consumer_offsets")
    assert "is a kafka internal topic and is not allowed to be marked for deletion." in internal.out
    assert internal.code == 1


def test_partitions_are_added_after_those_that_a_topic_has(bed: ZooKeeperBed) -> None:
    bed.register(1, 2)
    bed.make(
        "/brokers/topics/orders", data=b'{"version":3,"topic_id":"n6qMlyB5SbCcvEbmY029EA","partitions":{"0":[1,2]}}'
    )
    assert topics(bed, "--alter", "--topic", "orders", "--partitions", "2").out.endswith(
        "Adding partitions succeeded!\n"
    )
    assert bed.data("/brokers/topics/orders") == (
        '{"partitions":{"0":[1,2],"1":[2,1]},"topic_id":"n6qMlyB5SbCcvEbmY029EA","adding_replicas":{},'
        '"removing_replicas":{},"version":3}'
    )
    topics(bed, "--alter", "--topic", "orders", "--partitions", "3", "--replica-assignment", "1:2,2:1,2:1")
    assert '"2":[2,1]' in (bed.data("/brokers/topics/orders") or "")


BAD_ASSIGNMENTS = {
    "1:2,2:2": "Partition replica lists may not contain duplicate entries: 2",
    "1:2,3:1": "Some brokers specified for partition id 1 are not available. Specified brokers: 3, 1, available",
}


@pytest.mark.parametrize("assignment", BAD_ASSIGNMENTS)
def test_partitions_with_impossible_replicas_are_not_added(bed: ZooKeeperBed, assignment: str) -> None:
    bed.register(1, 2)
    topics(bed, "--create", "--topic", "orders", "--replica-assignment", "1:2")
    before = bed.data("/brokers/topics/orders")
    grown = topics(bed, "--alter", "--topic", "orders", "--partitions", "2", "--replica-assignment", assignment)
    assert BAD_ASSIGNMENTS[assignment] in grown.out
    assert bed.data("/brokers/topics/orders") == before


def test_a_changed_config_is_announced_to_the_brokers(bed: ZooKeeperBed) -> None:
    topics(bed, "--create", "--topic", "orders", "--replica-assignment", "1", "--config", "retention.ms=5000")
    changed = topics(
        bed,
        *("--alter", "--topic", "orders", "--config", "cleanup.policy=compact", "--delete-config", "retention.ms"),
    )
    assert changed.out.endswith("Updated config for topic orders.\n")
    assert bed.data("/config/topics/orders") == '{"version":1,"config":{"cleanup.policy":"compact"}}'
    assert bed.data("/config/changes/config_change_0000000000") == '{"version":2,"entity_path":"topics/orders"}'


def test_only_zookeeper_or_brokers_are_asked(bed: ZooKeeperBed) -> None:
    both = topics(bed, "--list", "--bootstrap-server", "h:1")
    assert both.err.startswith("Only one of --bootstrap-server or --zookeeper must be specified\n")
    needed = topics(bed, "--create", "--topic", "a", "--partitions", "1")
    assert needed.err.startswith('Missing required argument "[replication-factor]"\n')


def test_a_zookeeper_that_does_not_answer_is_named_as_in_java(bed: ZooKeeperBed) -> None:
    bed.server.stop()
    assert topics(bed, "--list") == Printed(
        1,
        "",
        'Exception in thread "main" kafka.zookeeper.ZooKeeperClientTimeoutException: Timed out waiting for connection '
        "while in state: CONNECTING\n",
    )
