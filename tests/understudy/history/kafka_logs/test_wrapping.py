"""The same lines give the same records in every form in which they are pasted, and under every option."""

from __future__ import annotations

import gzip
import random
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.understudy.history.kafka_logs.cluster_logs import BROKERS, SAMPLES
from tests.understudy.history.kafka_logs.wrapped_logs import FILES, SHARED_FILES, Containers, compose, json_file
from understudy.cli.main import main
from understudy.history.kafka_logs.entries import log_sources
from understudy.history.kafka_logs.pattern import LinePattern
from understudy.history.kafka_logs.survey import EntryKind
from understudy.history.kafka_logs.wrapping import LogError

CONTROLLER = "kafka.controller.KafkaController"


def entry(ms: int, message: str, logger: str = CONTROLLER) -> str:
    return f"[2026-05-01 12:00:{ms // 1000:02},{ms % 1000:03}] INFO {message} ({logger})"


def container(broker: int) -> list[str]:
    """The console of a broker of the samples: the lines of its three log files in one stream."""
    entries: list[list[str]] = []
    for kind in EntryKind:
        for line in (
            gzip.decompress((SAMPLES / f"broker-{broker}" / f"{kind.value}.gz").read_bytes()).decode().split("\n")
        ):
            if line.startswith("[2026-"):
                entries.append([line])
            elif line:
                entries[-1].append(line)
    return [line for one in sorted(entries, key=lambda one: one[0][:25]) for line in one]


@pytest.fixture(scope="module")
def containers() -> Containers:
    return {f"kafka-{broker}": container(broker) for broker in BROKERS}


def records(folder: Path, *options: object) -> dict[str, bytes]:
    """Import logs; return the files of the event logs."""
    assert main(["import-kafka", *map(str, options), "--dir", str(folder)]) == 0
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture(scope="module")
def expected(containers: Containers, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The records of the plain lines of each broker."""
    folder = tmp_path_factory.mktemp("plain")
    files = []
    for name, lines in containers.items():
        files.append(folder / f"{name}.txt")
        files[-1].write_text(FILES["plain"](lines))
    found = records(folder / "events", "--log", *files)
    assert len(found) > len(BROKERS)
    assert sum(map(len, found.values())) > 100_000
    return found


# -- real lines


@pytest.mark.parametrize("form", FILES)
def test_the_lines_of_one_container_give_the_same_records_in_every_form(
    form: str, containers: Containers, expected: dict[str, bytes], tmp_path: Path
) -> None:
    files = []
    for name, lines in containers.items():
        files.append(tmp_path / f"{name}.gz")
        files[-1].write_bytes(gzip.compress(FILES[form](lines).encode()))
    assert records(tmp_path / "events", "--log", *files) == expected


@pytest.mark.parametrize("form", SHARED_FILES)
def test_the_lines_of_several_containers_in_one_file_give_the_same_records(
    form: str, containers: Containers, expected: dict[str, bytes], tmp_path: Path
) -> None:
    """The lines of the containers are mixed at random, as the engine's answers arrive."""
    file = tmp_path / "pasted.txt"
    file.write_text(SHARED_FILES[form](containers, shuffled))
    assert records(tmp_path / "events", "--log", file) == expected


def shuffled(containers: Containers) -> Iterable[tuple[str, str]]:
    turns = [name for name, lines in containers.items() for _ in lines]
    random.Random(7).shuffle(turns)
    queues = {name: iter(lines) for name, lines in containers.items()}
    return [(name, next(queues[name])) for name in turns]


@pytest.mark.parametrize("option", ["--log", "--controller-log", "--state-change-log", "--server-log"])
def test_a_file_gives_the_same_records_under_every_option(
    option: str, containers: Containers, expected: dict[str, bytes], tmp_path: Path
) -> None:
    file = tmp_path / "compose.txt"
    file.write_text(compose(containers))
    assert records(tmp_path / "events", option, file) == expected


def test_the_files_of_kafkas_appenders_give_the_same_records_under_every_option(tmp_path: Path) -> None:
    files = [SAMPLES / f"broker-{broker}" / f"{kind.value}.gz" for broker in BROKERS for kind in EntryKind]
    folders = [f"--broker={broker}={SAMPLES / f'broker-{broker}'}" for broker in BROKERS]
    found = records(tmp_path / "folders", *folders)
    assert records(tmp_path / "controller", "--controller-log", *files) == found
    assert records(tmp_path / "server", "--server-log", *files[:5], "--log", *files[5:]) == found


# -- other containers, and their lines


def test_the_lines_of_containers_that_run_no_broker_are_left_out(
    containers: Containers, expected: dict[str, bytes], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    zookeeper = [entry(0, "binding to port 0.0.0.0/0.0.0.0:2181", "org.apache.zookeeper.server.NIOServerCnxnFactory")]
    others = {"zookeeper-1": zookeeper, "postgres-1": ["LOG:  database system is ready"] * 1_001}
    file = tmp_path / "compose.txt"
    file.write_text(compose({**others, **containers}, lambda all_of: [(n, line) for n in all_of for line in all_of[n]]))
    assert records(tmp_path / "events", "--log", file) == expected
    printed = capsys.readouterr().out.splitlines()
    assert f"note: {file}, zookeeper-1: 1 line without the id of a broker" in printed
    assert f"note: {file}, postgres-1: 1,001 lines without the id of a broker" in printed


def test_lines_without_a_name_between_others_are_counted(
    containers: Containers, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "up.txt"
    file.write_text(SHARED_FILES["docker compose up"](containers, shuffled))
    records(tmp_path / "events", "--log", file)
    assert f"note: {file}: 4 lines not in the form of docker compose logs, the first of them line 1" in (
        capsys.readouterr().out.splitlines()
    )


def test_a_line_that_docker_cut_at_the_end_of_a_rotated_file_is_joined(tmp_path: Path) -> None:
    long = entry(1, f"[Controller id=1] New partition creation callback for {'orders-0,' * 4_000}")
    text = json_file([entry(0, "[Controller id=1] Resigned"), long, entry(2, "[Controller id=1] Resigned")])
    lines = text.splitlines(keepends=True)
    assert len(lines) == 5
    older, newer = tmp_path / "0a-json.log.1", tmp_path / "0a-json.log"
    older.write_text("".join(lines[:2]))
    newer.write_text("".join(lines[2:]))
    (source,) = log_sources([(None, newer), (1, older)], LinePattern()).sources
    found = list(source.entries(LinePattern()))
    assert [len(one.message) for one in found] == [26, len(long) - len(entry(1, "")), 26]
    assert (found[1].file, found[1].line, found[1].logger) == (newer, 1, CONTROLLER)


def test_a_line_of_another_stream_between_the_pieces_of_a_line_does_not_break_it(tmp_path: Path) -> None:
    long = entry(0, f"[Controller id=1] {'orders-0,' * 4_000}")
    lines = json_file([long]).splitlines(keepends=True)
    warning = json_file(["\x1b[33mjava: warning\x1b[0m"]).replace("stdout", "stderr")
    file = tmp_path / "0a-json.log"
    file.write_text("".join([lines[0], warning, *lines[1:]]))
    (source,) = log_sources([(None, file)], LinePattern()).sources
    (found,) = source.entries(LinePattern())
    assert len(found.message) == len(long) - len(entry(0, ""))
    assert source.loose == {file: 1}


# -- lines at random

MESSAGES = st.one_of(
    st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=60),
    st.sampled_from(["a | b", "[pod/a/b] c", "{", '{"log": "a"}', "2026-05-01T12:00:00Z a", "é", "orders-0," * 5_000]),
)
ENTRIES = st.lists(
    st.tuples(MESSAGES, st.lists(st.sampled_from(["", "\tat a.B", "Caused by: x | y", "é"]), max_size=2))
)


@settings(max_examples=40, deadline=None)
@given(one=ENTRIES, other=ENTRIES, seed=st.integers(0, 99))
def test_the_same_lines_are_the_same_entries_in_every_form(
    one: list[tuple[str, list[str]]],
    other: list[tuple[str, list[str]]],
    seed: int,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    containers = {"a-1": stream(1, one), "longer.name-2": stream(2, other)}

    def mixed(all_of: Containers) -> Iterable[tuple[str, str]]:
        turns = [name for name, lines in all_of.items() for _ in lines]
        random.Random(seed).shuffle(turns)
        queues = {name: iter(lines) for name, lines in all_of.items()}
        return [(name, next(queues[name])) for name in turns]

    folder = tmp_path_factory.mktemp("lines")
    found = []
    for name, write in FILES.items():
        files = []
        for container_name, lines in containers.items():
            files.append(folder / f"{name.replace(' ', '')}-{container_name}")
            files[-1].write_text(write(lines), newline="")
        found.append(entries_of(files))
    for name, write_shared in SHARED_FILES.items():
        file = folder / name.replace(" ", "")
        file.write_text(write_shared(containers, mixed), newline="")
        found.append(entries_of([file]))
    assert [len(entries) for entries in found[0]] == [len(one) + 1, len(other) + 1]
    for another in found[1:]:
        assert another == found[0]


def stream(broker: int, entries: list[tuple[str, list[str]]]) -> list[str]:
    lines = [entry(0, f"[Controller id={broker}] Resigned")]
    for ms, (message, rest) in enumerate(entries, 1):
        lines += [entry(ms, message), *rest]
    return lines


def entries_of(files: list[Path]) -> list[list[tuple[object, ...]]]:
    """The entries of each broker without file and line."""
    sources = log_sources([(None, file) for file in files], LinePattern()).sources
    return [[(e.ms, e.level, e.logger, e.message, e.rest) for e in source.entries(LinePattern())] for source in sources]


# -- files that are refused


def refused(tmp_path: Path, text: str, broker: int | None = None) -> str:
    """Survey a file that must be refused; return the message without the folder."""
    file = tmp_path / "pasted.txt"
    file.write_text(text)
    with pytest.raises(LogError) as caught:
        log_sources([(broker, file)], LinePattern())
    return str(caught.value).replace(f"{tmp_path}/", "")


def test_a_file_without_a_known_form_names_its_first_line_and_the_forms(tmp_path: Path) -> None:
    message = refused(tmp_path, "\n\nMay 01 12:00:00 host kafka[7]: [2026-05-01 12:00:00,000] INFO x (a.B)\n")
    assert message == (
        "pasted.txt:3: no line has the pattern '[%d] %p %m (%c)%n', as this one: 'May 01 12:00:00 host kafka[7]: "
        "[2026-05-01 12:00:00,000] INFO x (a.B)'; expected a log that log4j has written with it, or another --pattern, "
        "in one of the forms: the lines as Kafka writes them, docker logs -t, kubectl logs --timestamps, docker "
        "compose logs, docker compose logs -t, kubectl logs --prefix, kubectl logs --prefix --timestamps, Docker's "
        "JSON files"
    )


@pytest.mark.parametrize(
    ("first", "second", "forms"),
    [
        ("a-1  | {}", "{}", ("docker compose logs", "the lines as Kafka writes them")),
        ("{}", "a-1  | {}", ("the lines as Kafka writes them", "docker compose logs")),
        ("a-1  | {}", "a-1  | 2026-05-01T12:00:00Z {}", ("docker compose logs", "docker logs -t, kubectl")),
        ("2026-05-01T12:00:00Z {}", "[pod/a/b] {}", ("docker logs -t, kubectl", "kubectl logs --prefix")),
    ],
)
def test_a_file_with_lines_of_two_forms_is_refused(
    tmp_path: Path, first: str, second: str, forms: tuple[str, str]
) -> None:
    lines = entry(0, "[Controller id=1] Resigned"), entry(1, "[Controller id=1] Resigned")
    message = refused(tmp_path, f"{first.format(lines[0])}\n{second.format(lines[1])}\n")
    assert message.startswith(f"pasted.txt:2: a line in the form of {forms[1]}")
    assert f"in a file that begins in the form of {forms[0]}" in message


def test_the_lines_of_several_brokers_without_names_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "pasted.txt"
    file.write_text(f"{entry(0, '[Controller id=1] Resigned')}\n{entry(1, '[Controller id=2] Resigned')}\n")
    (source,) = log_sources([(None, file)], LinePattern()).sources
    with pytest.raises(
        LogError, match=r"pasted\.txt:2: a line of broker 2 in a log of broker 1; .*kubectl logs --prefix"
    ):
        list(source.entries(LinePattern()))


def test_two_containers_with_the_same_broker_at_the_same_time_are_refused(tmp_path: Path) -> None:
    """As the logs of two clusters have them."""
    lines = [entry(0, "[Controller id=1] Resigned"), entry(5_000, "[Controller id=1] Resigned")]
    file = tmp_path / "pasted.txt"
    file.write_text(compose({"east-1": lines, "west-1": lines}))
    (source,) = log_sources([(None, file)], LinePattern()).sources
    with pytest.raises(LogError, match=r"the clock goes back by 5 s in the lines of west-1"):
        list(source.entries(LinePattern()))


def test_a_container_that_names_another_broker_than_the_folders_is_refused(tmp_path: Path) -> None:
    text = compose({"kafka-1": [entry(0, "[Controller id=1] x")], "kafka-2": [entry(0, "[Controller id=2] x")]})
    assert refused(tmp_path, text, broker=1) == (
        "pasted.txt, kafka-2: lines of broker 2 in a log of broker 1; name the file with --log"
    )


def test_a_console_and_a_log_file_with_the_same_lines_are_refused(tmp_path: Path) -> None:
    console, log = tmp_path / "console.txt", tmp_path / "controller.log"
    lines = [entry(ms, "[Controller id=1] Resigned") for ms in (0, 3_000)]
    log.write_text(FILES["plain"](lines))
    console.write_text(FILES["plain"]([*lines, entry(4_000, "starting", "kafka.server.KafkaServer")]))
    with pytest.raises(LogError) as caught:
        log_sources([(None, console), (None, log)], LinePattern())
    assert str(caught.value) == (
        f"{log} and {console} both have lines of controller.log of broker 1, and the same 3 s; give one of them"
    )
