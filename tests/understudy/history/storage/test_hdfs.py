"""Errors of HDFS that cannot be reached, or refuses; `tests/interop/test_hdfs.py` reaches it."""

from __future__ import annotations

import errno
import re
import socket
import sys
from collections.abc import Iterator

import pytest

from understudy.cli.main import main
from understudy.extras import MissingExtra
from understudy.history.lake import delta
from understudy.history.lake.errors import LakeError
from understudy.history.storage import hdfs
from understudy.history.storage.filesystems import WrittenFile, store_of, table_options
from understudy.history.storage.paths import StoreFailed, storage_path

JAVA = r"\n\tat org.apache.hadoop.hdfs.server.namenode.FSDirectory.resolvePath(FSDirectory.java:756)\n\tat java.base"
NODES = (
    r"[DatanodeInfoProto { id: DatanodeIdProto { ip_addr: \"10.0.0.7\", host_name: \"b\", xfer_port: 9866 } }, "
    r"DatanodeInfoProto { id: DatanodeIdProto { ip_addr: \"10.0.0.8\", host_name: \"c\", xfer_port: 9866 } }]"
)


@pytest.fixture
def silent() -> Iterator[str]:
    """The address of a server that accepts connections and never answers, until it ends."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"
    for caller in hdfs._left:
        caller.join()


@pytest.fixture
def refusing() -> Iterator[str]:
    """An address at which no server listens."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{bound.getsockname()[1]}"


@pytest.fixture
def few_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(hdfs._RETRIES, "dfs.client.failover.sleep.base.millis", "1")


@pytest.mark.usefixtures("few_retries")
def test_a_name_node_that_is_not_there_is_an_error_with_the_url(
    refusing: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(StoreFailed, match="Connection refused") as raised:
        storage_path(f"hdfs://{refusing}/runs").exists()
    assert (raised.value.filename, raised.value.errno) == (f"hdfs://{refusing}", errno.ECONNREFUSED)
    for words in (["replay", "--engine", "python"], ["lake", "history"]):
        assert main([*words, f"hdfs://{refusing}/runs"]) == 1
        error = capsys.readouterr().err
        assert re.fullmatch(rf"understudy {words[0]}.*hdfs://{refusing}.*Connection refused.*\n", error)


@pytest.mark.usefixtures("few_retries")
def test_a_name_node_that_never_answers_is_not_waited_for(silent: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hdfs, "_CONNECT_S", 0.1)
    with pytest.raises(StoreFailed, match=r"there was no answer within 0.1 s") as raised:
        store_of(f"hdfs://{silent}")
    assert (raised.value.filename, raised.value.errno) == (f"hdfs://{silent}", errno.ETIMEDOUT)


@pytest.mark.parametrize("authority", ["name-node", ""])
def test_a_url_without_a_port_needs_a_configuration(authority: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HADOOP_CONF_DIR", "HADOOP_HOME"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(StoreFailed, match=r"expected hdfs://NAMENODE:PORT/FOLDER, or .* HADOOP_CONF_DIR") as raised:
        storage_path(f"hdfs://{authority}/runs").exists()
    assert raised.value.filename == f"hdfs://{authority}"


def test_a_client_that_is_not_installed_is_named(refusing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "hdfs_native", None)
    with pytest.raises(MissingExtra, match=r"hdfs-native is needed, .*: pip install 'kafka-understudy\[hdfs\]'"):
        storage_path(f"hdfs://{refusing}/runs").exists()


@pytest.mark.parametrize("name", ["my lake", "lake%20", "lake?", "lake#1", "seé"])
def test_a_lake_that_deltalake_would_write_elsewhere_is_refused(name: str) -> None:
    url = storage_path(f"hdfs://host:1/{name}")
    for allowed in ("hdfs://host:1/lake-1_a.b=c", "hdfs://[::1]:1/lake", "hdfs:///lake"):
        assert table_options(storage_path(allowed)) is None
    with pytest.raises(LakeError, match=re.escape(f"{url} cannot be read: [Errno 22] the path of a lake in HDFS may")):
        delta.open_table(url)


@pytest.mark.parametrize(
    ("error", "class_", "number", "reason"),
    [
        (FileNotFoundError(f"/none{JAVA}".replace(r"\n", "\n")), FileNotFoundError, errno.ENOENT, "/none"),
        (OSError("Connection refused (os error 111)"), ConnectionRefusedError, 111, "Connection refused"),
        (
            OSError("failed to lookup address information: Name or service not known"),
            OSError, errno.EIO, "failed to lookup address information: Name or service not known",
        ),
        (
            RuntimeError(
                r'RPCError("org.apache.hadoop.security.AccessControlException", "Permission denied: user=bob, '
                rf'access=WRITE, inode=\"/a\":root:supergroup:drwxr-xr-x{JAVA}")'
            ),
            PermissionError,
            errno.EACCES,
            'Permission denied: user=bob, access=WRITE, inode="/a":root:supergroup:drwxr-xr-x',
        ),
        (
            RuntimeError(
                rf'RPCError("org.apache.hadoop.security.AccessControlException", "/x (is not a directory){JAVA}")'
            ),
            NotADirectoryError, errno.ENOTDIR, "/x (is not a directory)",
        ),
        (
            RuntimeError(rf'RPCError("org.apache.hadoop.fs.ParentNotDirectoryException", "/x is a file{JAVA}")'),
            NotADirectoryError, errno.ENOTDIR, "/x is a file",
        ),
        (
            RuntimeError(
                r'RPCError("org.apache.hadoop.hdfs.server.namenode.SafeModeException", "Cannot create file/x. '
                rf'Name node is in safe mode.\nThe reported blocks 0 needs 2{JAVA}")'
            ),
            OSError, errno.EIO, "SafeModeException: Cannot create file/x. Name node is in safe mode.",
        ),
        (
            RuntimeError(f'DataTransferError("All DataNodes failed: {NODES}")'),
            OSError, errno.EIO, "DataTransferError: All DataNodes failed: 10.0.0.7:9866, 10.0.0.8:9866",
        ),
        (RuntimeError("NoSASLMechanism"), OSError, errno.EIO, "NoSASLMechanism"),
    ],
)  # fmt: skip
def test_errors_are_those_of_files_with_a_reason_of_one_line(
    error: OSError | RuntimeError, class_: type[OSError], number: int, reason: str
) -> None:
    found = hdfs._as_os_error(error)
    assert (type(found), found.errno, found.strerror) == (class_, number, reason)


def test_a_file_that_cannot_be_sent_raises_the_reason() -> None:
    """An error keeps the content that it was about, which must not hide the error."""

    def put(content: bytes) -> None:
        pieces = [content]
        raise StoreFailed(errno.EIO, f"refused {len(pieces)} piece", "hdfs://host:1/x")

    written = WrittenFile(put)
    written.write(b"content")
    with pytest.raises(StoreFailed, match="refused 1 piece"):
        written.close()
    assert written.closed


def test_a_file_that_is_discarded_is_not_sent() -> None:
    sent: list[bytes] = []
    written = WrittenFile(lambda content: sent.append(bytes(content)))
    written.write(b"content")
    written.discard()
    written.close()
    assert not sent
