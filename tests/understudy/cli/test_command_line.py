"""The command line: its errors and exit codes, its help, and that the help imports nothing slow."""

from __future__ import annotations

import argparse
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from tests.foundation.eventlog.stories import killed_controller
from understudy.cli import arguments
from understudy.cli.arguments import BadInput, Failed, reported_as
from understudy.cli.main import main, parser
from understudy.cli.overview import VERBS
from understudy.extras import DISTRIBUTION


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("kil", "invalid choice: 'kil'; did you mean 'kill'? (`understudy help` lists all verbs)"),
        ("qqq", "invalid choice: 'qqq' (`understudy help` lists all verbs)"),
        ("experiment lst", "invalid choice: 'lst'; did you mean 'list'? (choose from run, defects,"),
        ("up --log-format jsn", "invalid choice: 'jsn'; did you mean 'json'? (choose from json, console, kafka)"),
        ("help kil", "invalid choice: 'kil'; did you mean 'kill'?"),
        ("up --brokers 0", "'0' is not a whole number from 1"),
        ("up --brokers three", "'three' is not a whole number from 1"),
        ("up --racks a,,b", "'a,,b' is not a list of names, for example a,b,c"),
        ("up --zookeeper localhost", "'localhost' is not HOST:PORT"),
        ("up --zookeeper localhost:2181//kafka", "'localhost:2181//kafka' has an empty folder in its chroot"),
        ("up --override broker.rack", "'broker.rack' is not KEY=VALUE"),
        ("zookeeper --dir x --port 99999", "'99999' is not a port; expected 0 to 65535"),
        ("zookeeper --dir x --tick-time-ms 0", "'0' is not a whole number from 1"),
        ("zookeeper", "the following arguments are required: --dir"),
        ("health localhost:0", "'localhost:0' is not HOST:PORT, for example localhost:9092"),
        ("status", "give either the run folder that `understudy up` named, or --zookeeper CONNECT"),
        ("status folder --zookeeper localhost:2181", "give either the run folder"),
    ],
)
def test_a_wrong_command_line_prints_one_line_and_exits_with_code_2(
    line: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(line.split())
    assert ended.value.code == 2
    output = capsys.readouterr()
    assert message in output.err.splitlines()[-1]
    assert output.out == ""


def test_the_version_is_that_of_the_installed_package(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"understudy {metadata.version(DISTRIBUTION)}\n"

    def not_installed(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", not_installed)
    with pytest.raises(SystemExit):
        main(["--version"])
    assert capsys.readouterr().out == "understudy of unknown version: the package is not installed\n"


def test_flags_can_be_written_as_in_kafkas_tools(tmp_path: Path) -> None:
    """As `--name=value`, and as unique prefixes."""
    options = parser().parse_args(["up", "--brok=5", "--rack", "a,b", "--dir", str(tmp_path), "--over", "a.b=c=d"])
    assert (options.brokers, options.racks, options.dir, options.override) == (
        5,
        ("a", "b"),
        tmp_path,
        [("a.b", "c=d")],
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("localhost:9092", ("localhost", 9092)),
        ("[::1]:19091", ("::1", 19091)),
        ("broker-1.example:1", ("broker-1.example", 1)),
    ],
)
def test_host_and_port(text: str, expected: tuple[str, int]) -> None:
    assert arguments.host_and_port(text) == expected


@pytest.mark.parametrize("text", ["zk-1:2181,zk-2:2181/kafka/prod", "localhost:2181"])
def test_a_connect_string_is_returned_unchanged(text: str) -> None:
    assert arguments.zookeeper_connect(text) == text


def test_every_module_of_a_verb_is_in_the_table_under_the_name_of_the_verb() -> None:
    [found] = [action for action in parser()._actions if isinstance(action, argparse._SubParsersAction)]
    assert list(found.choices) == list(VERBS)
    folder = Path(arguments.__file__).parent
    modules = {file.stem for file in folder.glob("*.py") if "\ndef add_arguments(" in file.read_text()}
    assert {verb.module for verb in VERBS.values()} == modules
    for name, verb in VERBS.items():
        assert verb.module in ("verbs", "tools", name.replace("-", "_"))


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_a_help(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        code: object = main([verb, "--help"])
    except SystemExit as ended:
        code = ended.code
    assert code == 0
    assert f"usage: understudy {verb}" in capsys.readouterr().out


def test_a_failure_prints_one_sentence_and_exits_with_code_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["status", str(tmp_path)]) == 1
    assert capsys.readouterr().err == (
        f"understudy status: {tmp_path} is no run folder: cluster.json: No such file or directory; "
        "give the one that `understudy up` named\n"
    )


def test_exceptions_are_reported_with_what_they_say() -> None:
    with pytest.raises(BadInput, match=r"^it is wrong$"), reported_as(BadInput, ValueError):
        raise ValueError("it is wrong")
    message = r"^--html no/file: No such file or directory$"
    with pytest.raises(Failed, match=message), reported_as(Failed, OSError, about="--html"):
        Path("no/file").read_text()
    with pytest.raises(KeyError), reported_as(Failed, ValueError, OSError):
        raise KeyError

    @reported_as(BadInput, ValueError)
    def parse(text: str) -> int:
        return int(text)

    assert parse("3") == 3
    with pytest.raises(BadInput, match="invalid literal"):
        parse("x")


@pytest.mark.parametrize("verb", ["demo", "up"])
def test_a_missing_java_prints_one_sentence_and_exits_with_code_1(
    verb: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UNDERSTUDY_JAVA_HOME", str(tmp_path))
    assert main([verb, "--dir", str(tmp_path / "run")]) == 1
    assert capsys.readouterr().err.startswith(
        f"understudy {verb}: UNDERSTUDY_JAVA_HOME={tmp_path}: there is no bin/java in it"
    )


@pytest.mark.parametrize(("verb", "arguments"), [("replay", ()), ("ingest", ("--engine", "spark", "--lake", "lake"))])
def test_where_java_is_missing_the_engine_without_it_is_named(
    verb: str,
    arguments: tuple[str, ...],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("UNDERSTUDY_JAVA_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    for name, lines in killed_controller().lines.items():
        (tmp_path / name).write_bytes(b"".join(lines))
    assert main([verb, str(tmp_path), *arguments]) == 1
    message = capsys.readouterr().err
    assert message.startswith(f"understudy {verb}: UNDERSTUDY_JAVA_HOME={tmp_path}: there is no bin/java in it")
    assert message.endswith("; or use --engine python, which needs none\n")


def test_a_demo_that_cannot_make_a_folder_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "runs").touch()
    monkeypatch.chdir(tmp_path)
    assert main(["demo"]) == 2
    expected = f"understudy demo: {tmp_path}/runs cannot be a folder for the run: File exists; give another by --dir\n"
    assert capsys.readouterr().err == expected


def test_a_demo_refuses_a_folder_that_is_not_empty(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The logs of an earlier run would be part of its report."""
    (tmp_path / "cluster.json").touch()
    assert main(["demo", "--dir", str(tmp_path)]) == 2
    expected = f"understudy demo: --dir {tmp_path}: it is not empty; the demo needs a new folder\n"
    assert capsys.readouterr().err == expected


def test_the_help_imports_no_slow_package() -> None:
    program = (
        "import sys; from understudy.cli.main import parser; parser('').format_help(); "
        "print([name for name in ('msgspec', 'kazoo', 'structlog', 'pyspark', 'asyncio', 'ctypes') "
        "if name in sys.modules])"
    )
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert answer.stdout == "[]\n"
