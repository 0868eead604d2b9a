"""Event logs of another machine are read with the program `ssh`.

The program is one that runs the command here, as sshd would; one test has OpenSSH itself, if sshd is installed.
"""

from __future__ import annotations

import getpass
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.foundation.eventlog.stories import killed_controller
from understudy.history.collecting.collect import copy_files, plan
from understudy.history.collecting.sources import ByteRange, LocalSource, NoEventLogs, SourceFailed, read_whole
from understudy.history.collecting.ssh import SshSource, ssh_source

NAME = "broker-1-0001-0001.jsonl"

FAKE = """\
#!/bin/sh
while [ "$1" != -- ]; do shift; done
[ "$2" != unreachable ] || { echo 'ssh: no route to unreachable' >&2; exit 255; }
shift 2
cd "$HOME" && exec sh -c "$*"
"""
"""The words after the destination are one command for a shell, whose folder is the user's home."""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The home of the other machine, with a folder of event logs whose name has everything that a shell reads."""
    program = tmp_path / "bin" / "ssh"
    program.parent.mkdir()
    program.write_text(FAKE)
    program.chmod(0o755)
    home = tmp_path / "home"
    write_logs(home / 'it\'s a $(folder) & "more"' / "events")
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("HOME", str(home))
    return home


def write_logs(folder: Path) -> None:
    folder.mkdir(parents=True)
    for name, lines in killed_controller().lines.items():
        (folder / name).write_bytes(b"".join(lines))
    (folder / "broker-9-0001-0001.jsonl").touch()
    (folder / "broker-9-0002-0001.jsonl").write_bytes(b"\x00\xff{torn")
    (folder / "notes.jsonl").write_text("not ours\n")


@pytest.mark.parametrize("is_absolute", [True, False])
def test_files_are_listed_and_read_as_those_of_a_local_folder(is_absolute: bool, home: Path) -> None:
    folder = next(home.iterdir())
    source = ssh_source(f"other:{folder if is_absolute else folder.name}")
    assert source is not None
    remote, local = source.files(), [file for file in LocalSource(folder).files() if file.file.node != "broker-9"]
    assert [(each.file.path.name, each.bytes, each.run) for each in remote] == sorted(
        [(each.file.path.name, each.bytes, each.run) for each in local]
        + [("broker-9-0001-0001.jsonl", 0, ""), ("broker-9-0002-0001.jsonl", 7, "")]
    )
    log = next(each for each in remote if each.file.path.name == NAME)
    whole = (folder / "events" / NAME).read_bytes()
    ranges = [ByteRange(log.file.path, begin, size) for begin, size in ((0, 10), (7, 0), (3, 20), (20, log.bytes - 20))]
    assert read_whole(source, ranges) == [whole[:10], b"", whole[3:23], whole[20:]]
    with pytest.raises(SourceFailed, match=r"other:.*: 5 bytes of .* are missing"):
        read_whole(source, [ByteRange(log.file.path, log.bytes - 5, 10)])


def test_collected_files_are_those_of_the_other_machine(home: Path, tmp_path: Path) -> None:
    folder = next(home.iterdir())
    source = ssh_source(f"other:{folder}")
    assert source is not None
    copy_files(plan([source], tmp_path / "run"))
    assert {path.name: path.read_bytes() for path in (tmp_path / "run").rglob("*.jsonl")} == {
        path.name: path.read_bytes() for path in (folder / "events").iterdir() if path.name != "notes.jsonl"
    }
    assert not any(copy.new for copy in plan([source], tmp_path / "run").copies)


@pytest.mark.parametrize("path", ["missing", "empty"])
def test_a_path_without_event_logs_is_refused(path: str, home: Path) -> None:
    (home / "empty").mkdir()
    with pytest.raises(NoEventLogs, match=rf"other:{path}.*; give the folder of the event logs"):
        SshSource("other", path, f"other:{path}").files()


def test_what_ssh_says_is_in_the_error(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SourceFailed, match="unreachable:x: ssh: no route to unreachable"):
        SshSource("unreachable", "x", "unreachable:x").files()
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(SourceFailed, match="other:x: the program ssh does not start: No such file"):
        SshSource("other", "x", "other:x").files()


@pytest.mark.parametrize(
    ("text", "destination", "path"),
    [
        ("host:/var/lib/kafka", "host", "/var/lib/kafka"),
        ("me@host:runs/mine", "me@host", "./runs/mine"),
        ("host:", "host", "./."),
        ("host:~/runs", "host", "./runs"),
        ("[::1]:/x", "::1", "/x"),
        ("me@[fe80::1%eth0]:/x:y", "me@fe80::1%eth0", "/x:y"),
        ("ssh://me@host:2222/x/y", "ssh://me@host:2222", "/x/y"),
    ],
)
def test_a_source_on_another_machine_is_named_as_for_scp(text: str, destination: str, path: str) -> None:
    source = ssh_source(text)
    assert source is not None
    assert (source._destination, source._path, source.name) == (destination, path, text)


@pytest.mark.parametrize("text", ["runs/mine", "./host:x", "/a:b", "s3://bucket/x", "https://host/x", "ssh://host", ""])
def test_other_texts_name_no_other_machine(text: str) -> None:
    assert ssh_source(text) is None


def test_event_logs_are_read_through_openssh(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """A real `ssh` and a real `sshd`, which are connected by a pipe instead of a port."""
    server = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin:/usr/local/sbin")
    client = shutil.which("ssh")
    if server is None or client is None:
        pytest.skip("there is no sshd or no ssh on this machine")
    keys, logs = tmp_path / "keys", tmp_path / "a folder"
    keys.mkdir(mode=0o700)
    write_logs(logs / "events")
    for name in ("host", "user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", keys / name], check=True)
    (keys / "sshd_config").write_text(
        f"HostKey {keys}/host\nAuthorizedKeysFile {keys}/user.pub\nStrictModes no\nUsePAM no\nPidFile none\n"
    )
    host = (keys / "host.pub").read_text()
    (keys / "known").write_text(f"other {host}")
    (keys / "config").write_text(
        f"Host other\n  User {getpass.getuser()}\n  IdentityFile {keys}/user\n  UserKnownHostsFile {keys}/known\n"
        f"  BatchMode yes\n  ProxyCommand {server} -i -f {keys}/sshd_config -E {keys}/log\n"
    )
    program = tmp_path / "bin" / "ssh"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {client} -F {keys}/config "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    source = ssh_source(f"other:{logs}")
    assert source is not None
    try:
        copy_files(plan([source], tmp_path / "run"))
    except SourceFailed as error:
        said = (keys / "log").read_text() if (keys / "log").exists() else str(error)
        if "Privilege separation user" in said or "Missing privilege separation directory" in said:
            pytest.skip(f"sshd is not set up on this machine: {said.strip()}")
        raise
    found = {path.name: path.read_bytes() for path in (tmp_path / "run").rglob("*.jsonl")}
    assert found == {path.name: path.read_bytes() for path in (logs / "events").iterdir() if path.name != "notes.jsonl"}
