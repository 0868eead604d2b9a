"""`understudy watch --compose` on an engine: the page follows the containers, and commands them."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest

from tests.compose.compose_cluster import ComposeCluster, eventually
from tests.understudy.cli.terminal import UNDERSTUDY, line_starting_with
from tests.understudy.page.test_watch import Served, is_elected

pytestmark = [
    pytest.mark.docker,
    pytest.mark.xdist_group("compose"),
    # For a test, the start of its cluster and a first build that downloads Spark, on a machine with much else to do.
    pytest.mark.timeout(1800),
]


@pytest.fixture
def page(cluster: ComposeCluster) -> Iterator[Served]:
    cluster.up()
    eventually(cluster.is_whole, "three brokers and a controller")
    command = [*UNDERSTUDY, "watch", str(cluster.run_folder.parents[1]), "--compose"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield Served.at(line_starting_with("page", process.stdout))
    finally:
        process.terminate()
        _, err = process.communicate(timeout=120)
    assert (process.returncode, err) == (0, "")


def test_the_controller_is_killed_from_the_page_and_another_one_appears(cluster: ComposeCluster, page: Served) -> None:
    eventually(lambda: page.get("/run.json")["brokers"] == [1, 2, 3], "the page has the logs of three brokers")
    facts = page.get("/run.json")
    assert (facts["is_live"], facts["can_command"]) == (True, True)
    assert (facts["session_timeout_ms"], facts["findings"]) == (6000, [])
    controller = f"broker-{cluster.status()['controller']}"

    topic = {"name": "orders", "partitions": 3, "replication_factor": 3}
    assert page.post("/control/topics", topic) == (200, {"name": "orders", "partitions": 3})
    status, answer = page.post("/control/verbs/kill", {"target": "controller"})
    assert (status, answer["done"]) == (200, [f"{controller} (controller)"])
    after, _ = page.records_until(is_elected, facts["records"])
    kinds = [record[4] for record in after]
    fault = after[kinds.index("FaultInjected")]
    assert (fault[8]["fault"], fault[8]["target"]) == ("kill", controller)
    elected = next(record for record in after if is_elected(record))
    assert elected[1] != controller
    assert kinds.index("FaultInjected") < kinds.index("ControllerElected")

    assert page.post("/control/verbs/start", {"target": controller.removeprefix("broker-")})[0] == 200
    eventually(cluster.is_whole, "the killed broker is back")
    status, answer = page.post("/control/produce", {"partition": "orders/0", "values": ["a record"]})
    assert (status, answer["offset"]) == (200, 0)
    assert cluster.violations() == ""
    assert (
        page.post("/control/verbs/arm", {"target": "1", "point": "partition.after_write", "action": "pause"})[0] == 409
    )


def test_the_run_has_ended_when_no_container_is_left(cluster: ComposeCluster, page: Served) -> None:
    assert page.get("/run.json")["is_live"]
    cluster.down()
    eventually(lambda: not page.get("/run.json")["is_live"], "the page shows that the run has ended")
    assert page.post("/control/verbs/kill", {"target": "1"})[0] == 409
