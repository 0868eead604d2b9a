"""The verbs on a running cluster: `understudy up` as a process, the commands, and the control port."""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.understudy.cli.terminal import Terminal, eventually, line_starting_with
from understudy.cli.main import main
from understudy.clusters.control.client import ControlClient, ControlRefused
from understudy.clusters.control.control_file import CONTROL_FILE, ControlEntry, read_control_file
from understudy.clusters.processes import linux
from understudy.clusters.processes.run_folder import BrokerEntry, read_cluster_file
from understudy.foundation.eventlog.records import FaultInjected, StepReached
from understudy.history.reading.reader import read

pytestmark = pytest.mark.xdist_group("control")

BROKERS = 3


class Up:
    """A cluster of three brokers in the racks a and b, and a client of its control port."""

    def __init__(self, terminal: Terminal) -> None:
        self.terminal = terminal
        self.folder = terminal.folder
        self.entry = read_control_file(self.folder)
        self.client = ControlClient(self.entry)

    def cluster(self) -> dict[str, Any]:
        return self.client.get("/cluster")

    def broker(self, broker_id: int) -> BrokerEntry:
        return next(each for each in read_cluster_file(self.folder).brokers if each.id == broker_id)

    def is_whole(self) -> bool:
        try:
            found = self.cluster()
        except ControlRefused as refused:
            if refused.status == 503:
                return False
            raise
        registered = [broker["id"] for broker in found["brokers"] if broker["registered"]]
        return len(registered) == BROKERS and found["controller"] in registered and not found["under_replicated"]

    @property
    def faults(self) -> list[tuple[str, str, str]]:
        """Every fault on record in the testbed's event log."""
        data = [record.data for record in read([self.folder / "testbed" / "events"]).records]
        return [(each.fault, each.target, each.role) for each in data if isinstance(each, FaultInjected)]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    folder = tmp_path_factory.mktemp("control") / "run"
    terminal = Terminal(folder, "--brokers", str(BROKERS), "--racks", "a,b", "--session-timeout-ms", "2000")
    try:
        terminal.wait_until_up()
        yield Up(terminal)
    finally:
        terminal.close()


@pytest.fixture
def up(running: Up) -> Up:
    """The cluster, whole: each test starts again what it has ended."""
    eventually(running.is_whole, "three brokers and a controller")
    return running


def test_a_killed_controller_is_replaced_and_started_again(up: Up, capsys: pytest.CaptureFixture[str]) -> None:
    before = up.cluster()["controller"]
    assert main(["kill", str(up.folder), "controller"]) == 0
    assert capsys.readouterr().out == f"broker-{before} (controller) killed\n"
    assert up.faults[-1] == ("kill", f"broker-{before}", "controller")
    assert line_starting_with(f"broker-{before} (controller) killed", up.terminal.out)
    eventually(lambda: up.cluster()["controller"] not in (None, before), "another broker is controller")

    assert main(["kill", str(up.folder), str(before)]) == 1
    refused = f"understudy kill: broker-{before} cannot be killed: it is not running\n"
    assert capsys.readouterr().err == refused
    assert up.faults[-1] == ("kill", f"broker-{before}", "controller"), "what is refused is not on record"

    assert main(["start", str(up.folder), str(before)]) == 0
    assert capsys.readouterr().out == f"broker-{before} started\n"
    assert up.broker(before).state == "running"
    assert up.faults[-1] == ("start", f"broker-{before}", "")
    assert main(["start", str(up.folder), str(before)]) == 1
    assert "it is running" in capsys.readouterr().err


def test_a_pause_with_a_duration_ends_by_itself(up: Up, capsys: pytest.CaptureFixture[str]) -> None:
    controller = up.cluster()["controller"]
    assert main(["pause", str(up.folder), "controller", "--for", "2s"]) == 0
    assert capsys.readouterr().out == f"broker-{controller} (controller) paused; to be resumed after 2 s\n"
    assert up.broker(controller).state == "paused"
    assert main(["pause", str(up.folder), str(controller)]) == 1
    assert "it is paused already" in capsys.readouterr().err
    assert up.faults[-1] == ("pause", f"broker-{controller}", "controller")
    eventually(lambda: up.broker(controller).state == "running", "the broker is resumed")
    assert up.faults[-1][:2] == ("resume", f"broker-{controller}")
    assert main(["resume", str(up.folder), str(controller)]) == 1
    assert "it is not paused" in capsys.readouterr().err


def test_an_undo_by_hand_replaces_the_one_that_is_due(up: Up) -> None:
    """Otherwise the first pause's end would end the second pause."""
    up.client.verb("pause", {"target": "2", "for": "400ms"})
    up.client.verb("resume", {"target": "2"})
    up.client.verb("pause", {"target": "2"})
    up.client.verb("pause", {"target": "3", "for": "700ms"})
    eventually(lambda: up.broker(3).state == "running", "the later pause has ended")
    assert up.broker(2).state == "paused"
    up.client.verb("resume", {"target": "2"})


def test_a_deposed_controller_keeps_running(up: Up) -> None:
    found = up.cluster()
    pid = up.broker(found["controller"]).pid
    assert up.client.verb("depose", {"target": "controller"})["done"] == [f"broker-{found['controller']} (controller)"]
    eventually(lambda: up.cluster()["controller_epoch"] > found["controller_epoch"], "a controller was elected")
    assert up.broker(found["controller"]).pid == pid
    other = next(broker for broker in range(1, BROKERS + 1) if broker != up.cluster()["controller"])
    with pytest.raises(ControlRefused, match=f"broker-{other} cannot be deposed: broker . is the controller"):
        up.client.verb("depose", {"target": str(other)})


def test_topics_records_and_elections_and_targets_by_partition(up: Up) -> None:
    up.client.post("/topics", {"name": "orders", "partitions": 2, "replication_factor": 3})
    with pytest.raises(ControlRefused, match="TOPIC_ALREADY_EXISTS"):
        up.client.post("/topics", {"name": "orders"})
    first = up.client.post("/produce", {"partition": "orders/0", "values": ["a", "b"]})
    assert first == {"partition": "orders/0", "offset": 0}
    assert up.client.post("/produce", {"partition": "orders/0", "values": ["c"], "acks": "1"})["offset"] == 2
    with pytest.raises(ControlRefused, match="the records are refused: nothing-0 has no leader"):
        up.client.post("/produce", {"partition": "nothing/0", "values": ["a"], "timeout_ms": 300})
    elected = up.client.post("/elections", {"partitions": ["orders/0"]})
    assert elected == {"partitions": {"orders/0": "ELECTION_NOT_NEEDED"}}

    restarted = up.client.verb("restart", {"target": "leader:orders/0"})
    assert restarted["done"][0].endswith("(leader of orders-0)")
    eventually(up.is_whole, "the ISRs are full again")
    follower = up.client.verb("pause", {"target": "follower:orders/1", "for": "10ms"})
    assert follower["done"][0].endswith("(follower of orders-1)")
    with pytest.raises(ControlRefused, match="no broker is leader of nothing-7 at this moment"):
        up.client.verb("kill", {"target": "leader:nothing/7"})


def test_a_rack_is_stopped_and_started(up: Up) -> None:
    stopped = up.client.verb("stop", {"target": "rack:a"})
    assert stopped["done"] == ["broker-1 (rack a)", "broker-3 (rack a)"]
    again = up.client.verb("start", {"target": "all"})
    assert again["done"] == ["broker-1", "broker-3"]
    assert (again["skipped"], again["message"]) == ([], "broker-1, broker-3 started")
    with pytest.raises(ControlRefused, match="no broker is in rack 'z'; the racks are: a, b"):
        up.client.verb("kill", {"target": "rack:z"})


def test_start_of_all_is_refused_while_every_broker_runs(up: Up) -> None:
    running = "broker-1, broker-2, broker-3: it is running"
    with pytest.raises(ControlRefused, match=rf"no broker can be started \({running}\)"):
        up.client.verb("start", {"target": "all"})


def test_zookeeper_can_be_ended_and_is_started_again(up: Up) -> None:
    before = read_cluster_file(up.folder).zookeeper_process
    assert before is not None
    up.client.verb("kill", {"target": "zookeeper"})
    assert up.faults[-1] == ("kill", "zookeeper", "")
    with pytest.raises(ControlRefused) as refused:
        up.client.verb("kill", {"target": "controller"})
    assert refused.value.status == 503
    with pytest.raises(ControlRefused) as refused:
        up.cluster()
    assert refused.value.status == 503
    up.client.verb("start", {"target": "zookeeper"})
    eventually(up.is_whole, "the brokers have their sessions again")

    up.client.verb("pause", {"target": "zookeeper", "for": "200ms"})
    eventually(lambda: up.faults[-1] == ("resume", "zookeeper", ""), "ZooKeeper is resumed")
    up.client.verb("kill", {"target": "zookeeper", "for": "200ms"})
    eventually(lambda: up.faults[-1] == ("start", "zookeeper", ""), "ZooKeeper is started again")
    eventually(up.is_whole, "the brokers have their sessions again")
    now = read_cluster_file(up.folder).zookeeper_process
    assert now is not None
    assert now.is_running
    assert now.pid != before.pid


def test_a_point_is_armed_and_crashes_the_next_controller(up: Up, capsys: pytest.CaptureFixture[str]) -> None:
    controller = up.cluster()["controller"]
    other = controller % BROKERS + 1
    line = ["arm", str(up.folder), str(other), "election.after_write", "--action", "crash"]
    assert main(line) == 0
    assert capsys.readouterr().out == f"broker-{other} armed\n"
    steps = [record.data for record in read([up.folder / "testbed" / "events"]).records]
    armed = [each.note for each in steps if isinstance(each, StepReached)]
    assert armed[-1] == f"broker-{other}: crash at election.after_write"
    up.client.verb("arm", {"target": str(6 - controller - other), "point": "election.after_write", "action": "crash"})
    up.client.verb("kill", {"target": str(controller)})
    eventually(lambda: not up.broker(other).is_running, "the armed broker has crashed")
    eventually(lambda: all(not up.broker(each).is_running for each in (1, 2, 3)), "all brokers have ended")
    up.client.verb("start", {"target": "all"})


def test_an_answer_is_armed_given_and_waited_for(up: Up, capsys: pytest.CaptureFixture[str]) -> None:
    controller = up.cluster()["controller"]
    line = ["answer", str(up.folder), "controller", "--api", "CreateTopics", "--error", "POLICY_VIOLATION"]
    assert main([*line, "--wait", "100ms"]) == 1
    out = capsys.readouterr()
    armed = "answer-1: 1 × CreateTopics answered with POLICY_VIOLATION"
    assert out.out == f"broker-{controller} (controller) armed; {armed}\n"
    assert out.err == f"understudy answer: broker-{controller}/answer-1 was given 0 of 1 times within 100ms\n"
    with pytest.raises(ControlRefused, match="POLICY_VIOLATION") as refused:
        up.client.post("/topics", {"name": "refused"})
    assert refused.value.answer["kafka_error"] == "POLICY_VIOLATION"
    (described,) = up.client.get("/answers")["answers"]
    assert (described["id"], described["hits"], described["times"]) == (f"broker-{controller}/answer-1", 1, 1)
    up.client.post("/topics", {"name": "accepted"})


def test_one_answer_is_armed_at_every_broker(up: Up) -> None:
    body = {"target": "all", "api": "Metadata", "error": "LEADER_NOT_AVAILABLE", "client": "none", "and": "apply"}
    done = up.client.verb("answer", body)
    assert len(done["done"]) == BROKERS
    described = up.client.get("/answers")["answers"][-1]
    assert (described["id"], described["is_applied"]) == (done["answer"], True)
    assert described["broker"] == "broker-1, broker-2, broker-3"


def test_a_wrong_answer_has_exit_code_2(up: Up, capsys: pytest.CaptureFixture[str]) -> None:
    line = ["answer", str(up.folder), "1", "--api", "Produce", "--error", "NOT_LEADER"]
    assert main(line) == 2
    assert "did you mean 'NOT_LEADER_OR_FOLLOWER'?" in capsys.readouterr().err
    assert main([*line, "--wait", "soon"]) == 2


def test_without_a_running_broker_no_topic_is_created(up: Up) -> None:
    up.client.verb("pause", {"target": "1"})
    assert len(up.client.verb("kill", {"target": "all"})["done"]) == BROKERS
    with pytest.raises(ControlRefused, match="no broker is running that is not paused") as refused:
        up.client.post("/topics", {"name": "late"})
    assert refused.value.status == 409
    up.client.verb("start", {"target": "all"})


def test_without_a_proxy_no_broker_can_be_isolated(up: Up, capsys: pytest.CaptureFixture[str]) -> None:
    before = up.faults
    assert main(["isolate", str(up.folder), "1"]) == 1
    assert capsys.readouterr().err == (
        "understudy isolate: broker-1 cannot be isolated: its traffic goes through no proxy; start the cluster with "
        "`understudy up --proxied`\n"
    )
    assert up.faults == before


def test_an_isolated_controller_is_replaced_and_returns(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path / "run", "--brokers", "3", "--proxied", "--session-timeout-ms", "2000")
    try:
        terminal.wait_until_up()
        up = Up(terminal)
        controller = up.cluster()["controller"]
        up.client.verb("isolate", {"target": "controller", "for": "4s"})
        assert up.faults[-1] == ("isolate", f"broker-{controller}", "controller")
        eventually(lambda: up.cluster()["controller"] not in (None, controller), "another broker is controller")
        eventually(lambda: up.faults[-1][:2] == ("heal", f"broker-{controller}"), "the broker is healed")
        eventually(up.is_whole, "the healed broker has registered again")
        up.client.verb("isolate", {"target": "controller"})
        terminal.ctrl_c()
        assert terminal.process.wait(timeout=60) == 0
        assert [fault for fault in up.faults if fault[0] == "kill"] == [], "healed, it can stop in order"
    finally:
        terminal.close()


def test_a_wrong_token_and_a_wrong_host_are_refused(up: Up) -> None:
    before = up.faults
    fields = {name: getattr(up.entry, name) for name in up.entry.__struct_fields__}
    with pytest.raises(ControlRefused) as refused:
        ControlClient(ControlEntry(**{**fields, "token": "x" * 43})).verb("kill", {"target": "1"})
    assert refused.value.status == 401
    connection = http.client.HTTPConnection("127.0.0.1", up.entry.port, timeout=10)
    headers = {"Host": f"rebound.example:{up.entry.port}", "Authorization": f"Bearer {up.entry.token}"}
    connection.request("POST", "/verbs/kill", body=json.dumps({"target": "1"}), headers=headers)
    assert connection.getresponse().status == 403
    connection.close()
    assert up.faults == before
    assert up.cluster()["brokers"][0]["process"] == "running"


def test_ctrl_c_undoes_what_would_keep_the_cluster_from_stopping_in_order(tmp_path: Path) -> None:
    """While ZooKeeper or the controller is paused, no broker can finish its controlled shutdown: it would be killed."""
    folder = tmp_path / "run"
    terminal = Terminal(folder, "--brokers", "2")
    try:
        cluster = terminal.wait_until_up()
        up = Up(terminal)
        controller = up.cluster()["controller"]
        up.client.verb("pause", {"target": "controller", "for": "1h"})
        up.client.verb("pause", {"target": "zookeeper", "for": "1h"})
        terminal.ctrl_c()
        assert terminal.process.wait(timeout=60) == 0
        resumed = {target for fault, target, _ in up.faults if fault == "resume"}
        assert resumed == {"zookeeper", f"broker-{controller}"}
        assert [fault for fault in up.faults if fault[0] == "kill"] == []
        assert not (folder / CONTROL_FILE).exists()
        assert [each.pid for each in cluster.brokers if each.pid and linux.start_time(each.pid) == each.started] == []
    finally:
        terminal.close()


def test_a_given_control_port_is_printed_with_its_token(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    terminal = Terminal(tmp_path / "run", "--brokers", "1", "--control", f"127.0.0.1:{port}")
    try:
        control = line_starting_with("control ", terminal.out).split()[1]
        token = line_starting_with("token ", terminal.out).split()[1]
        terminal.wait_until_up()
        entry = read_control_file(terminal.folder)
        assert (control, token) == (f"http://127.0.0.1:{port}/docs", entry.token)
        assert ControlClient(entry).get("/cluster")["bootstrap"] == read_cluster_file(terminal.folder).bootstrap
    finally:
        terminal.close()
