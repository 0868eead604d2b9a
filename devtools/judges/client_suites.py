"""Runs the tests that stock clients bring along, against our brokers.

The sources come from the package registries of Go, Rust and Python by way of their ordinary clients, which verify what
they download; nothing here names a host. `python -m devtools.judges.client_suites franz-go [TEST …]` runs one suite;
with `--kafka` the brokers are Apache Kafka's.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from devtools.judges.maven import kafka_libs
from devtools.judges.tests_of_clients import FRANZ_GO, KAFKA_PYTHON, LIBRDKAFKA, SARAMA, ClientTests
from understudy.clusters.processes.apache_kafka import SMALL_BROKER, SMALL_JVM, ApacheKafka
from understudy.clusters.processes.broker_process import HOST
from understudy.clusters.processes.free_ports import free_ports
from understudy.clusters.processes.kafka_jars import VERSION as KAFKA_VERSION
from understudy.clusters.processes.kafka_jars import NotFetched
from understudy.clusters.processes.local_cluster import LocalCluster

FETCH_TIMEOUT_S = 300
BUILD_TIMEOUT_S = 900
SUITE_TIMEOUT_S = 2_400
_TEST_TIMEOUT_S = 200
_LISTENER_TIMEOUT_S = 60
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


class NotBuilt(Exception):
    """The sources of a suite could not be built. The message has the end of the build's output."""


class Outcome(NamedTuple):
    """The outcome of a test: `passed`, `failed` or `skipped`, and the end of what a test that did not pass printed."""

    test: str
    result: str
    output: str


class Suite(ABC):
    """The tests of one client.

    Args:
        directory: a folder for what the tests write.
    """

    tests: ClientTests

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    @abstractmethod
    def prepare(self) -> None:
        """Fetch the sources, and build them.

        Raises:
            NotFetched: a program is missing, or it could not fetch the sources.
            NotBuilt: they do not build.
        """

    @abstractmethod
    def asking(self) -> set[str]:
        """The names of all tests that expect brokers, found in the sources; without the parts of a test."""

    @abstractmethod
    def run(self, bootstrap: str, tests: Sequence[str]) -> list[Outcome]:
        """Run the tests of these names against the brokers at `bootstrap`."""


class FranzGo(Suite):
    """The tests of the package `kgo`."""

    tests = FRANZ_GO

    def prepare(self) -> None:
        go = find_go()
        sources = fetch_module(go, f"github.com/twmb/franz-go@v{self.tests.version}", self.directory)
        self._package = sources / "pkg" / "kgo"
        self._binary = self.directory / "kgo.test"
        _built([go, "test", "-c", "-o", str(self._binary), "./pkg/kgo"], cwd=sources)

    def asking(self) -> set[str]:
        sources = "\n".join(path.read_text(encoding="utf-8") for path in sorted(self._package.glob("*_test.go")))
        functions = re.findall(r"^func (Test\w+)\(t \*testing\.T\) \{\n(.*?)^\}$", sources, re.MULTILINE | re.DOTALL)
        return {name for name, body in functions if re.search(r"\b(newTestClient|testClientOpts|scramSeeds)\b", body)}

    def run(self, bootstrap: str, tests: Sequence[str]) -> list[Outcome]:
        command = [str(self._binary), "-test.v", f"-test.timeout={SUITE_TIMEOUT_S}s"]
        command += ["-test.run", f"^({'|'.join(tests)})$"]
        environment = {**os.environ, "KGO_SEEDS": bootstrap, "KGO_LOG_LEVEL": "none", "KGO_TEST_RECORDS": "20000"}
        output = run_to_end(command, cwd=self._package, timeout_s=SUITE_TIMEOUT_S + 60, environment=environment).output
        return [of_go(test, output) for test in tests]


class Sarama(Suite):
    """The functional tests, whose first connections go through Toxiproxy, at addresses that the tests name."""

    tests = SARAMA

    def prepare(self) -> None:
        go = find_go()
        self._sources = fetch_module(go, f"github.com/IBM/sarama@v{self.tests.version}", self.directory)
        proxy = fetch_module(go, f"github.com/Shopify/toxiproxy/v2@v{_TOXIPROXY}", self.directory)
        self._binary, self._proxy = self.directory / "sarama.test", self.directory / "toxiproxy"
        _built([go, "test", "-c", "-tags", "functional", "-o", str(self._binary), "."], cwd=self._sources)
        _built([go, "build", "-o", str(self._proxy), "./cmd/server"], cwd=proxy)

    def asking(self) -> set[str]:
        sources = [path.read_text(encoding="utf-8") for path in sorted(self._sources.glob("functional_*_test.go"))]
        return {
            name for text in sources for name in re.findall(r"^func (Test\w+)\(t \*testing\.T\)", text, re.MULTILINE)
        }

    def run(self, bootstrap: str, tests: Sequence[str]) -> list[Outcome]:
        proxies = [
            {"name": f"kafka{number}", "listen": f"{HOST}:{_FIRST_PROXY + number}", "upstream": broker, "enabled": True}
            for number, broker in enumerate(bootstrap.split(","), start=1)
        ]
        config = self.directory / "proxies.json"
        config.write_text(json.dumps(proxies))
        (port,) = free_ports(1)
        command = [str(self._proxy), "-host", HOST, "-port", str(port), "-config", str(config)]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as proxy:
            try:
                wait_for_listener(port, proxy)
                return self._run(f"http://{HOST}:{port}", tests)
            finally:
                proxy.kill()

    def _run(self, proxy: str, tests: Sequence[str]) -> list[Outcome]:
        command = [str(self._binary), "-test.v", f"-test.timeout={SUITE_TIMEOUT_S}s"]
        command += ["-test.run", f"^({'|'.join(tests)})$"]
        environment = {**os.environ, "TOXIPROXY_ADDR": proxy, "KAFKA_VERSION": KAFKA_VERSION}
        ended = run_to_end(command, cwd=self._sources, timeout_s=SUITE_TIMEOUT_S + 60, environment=environment)
        return [of_go(test, ended.output) for test in tests]


def of_go(test: str, output: str) -> Outcome:
    """The outcome of a test from the output of several that Go's test runner printed."""
    found = re.search(rf"^--- (PASS|FAIL|SKIP): {test} ", output, re.MULTILINE)
    results = {"PASS": "passed", "FAIL": "failed", "SKIP": "skipped"}
    own = re.search(rf"^=== RUN   {test}\n.*?^--- \w+: {test} .*?$", output, re.MULTILINE | re.DOTALL)
    return _outcome(test, results[found[1]] if found else "failed", own[0] if own else output)


class Librdkafka(Suite):
    """The tests of librdkafka, whose sources are in the crate `rdkafka-sys`; `0081_admin/NAME` is a part of a test."""

    tests = LIBRDKAFKA

    def prepare(self) -> None:
        cargo = find_program("cargo", "Rust's package manager")
        for program in ("bash", "make", "gcc", "g++"):
            find_program(program, "bash, make and a compiler for C and C++")
        crate = self.directory / "crate"
        crate.mkdir()
        (crate / "lib.rs").touch()
        (crate / "Cargo.toml").write_text(
            '[package]\nname = "sources"\nversion = "0.0.0"\nedition = "2021"\n[lib]\npath = "lib.rs"\n'
            f'[dependencies]\nrdkafka-sys = "={_CRATE}"\n'
        )
        fetch([cargo, "fetch", "--quiet"], cwd=crate)
        metadata = json.loads(fetch([cargo, "metadata", "--format-version", "1", "--offline"], cwd=crate))
        (found,) = (each for each in metadata["packages"] if each["name"] == "rdkafka-sys")
        if found["version"] != f"{_CRATE}+{self.tests.version}":
            raise NotFetched(f"rdkafka-sys {found['version']} is not librdkafka {self.tests.version}")
        sources = Path(found["manifest_path"]).parent / "librdkafka"
        self._root = cached(f"librdkafka-{self.tests.version}", lambda folder: self._build(sources, folder))

    @staticmethod
    def _build(sources: Path, folder: Path) -> None:
        shutil.copytree(sources, folder, dirs_exist_ok=True)
        _built(["bash", "./configure", "--disable-ssl", "--disable-gssapi", "--disable-curl"], cwd=folder)
        _built(["make", f"-j{os.cpu_count() or 1}", "libs"], cwd=folder)
        _built(["make", f"-j{os.cpu_count() or 1}", "-C", "tests", "build"], cwd=folder)

    def asking(self) -> set[str]:
        source = (self._root / "tests" / "test.c").read_text(encoding="utf-8")
        listed = source[source.index("struct test tests[] = {") :]
        tests = re.findall(r"^\s+_TEST\((\w+),\s*([^,)]+)", listed, re.MULTILINE)
        return {name for name, flags in tests if not re.search("LOCAL|MANUAL|KNOWN_ISSUE\\b", flags)}

    def run(self, bootstrap: str, tests: Sequence[str]) -> list[Outcome]:
        config = self.directory / "test.conf"
        config.write_text(f"bootstrap.servers={bootstrap}\ntest.topic.random=true\n")
        return [self._run(config, test) for test in tests]

    def _run(self, config: Path, test: str) -> Outcome:
        name, _, part = test.partition("/")
        environment = {
            **os.environ,
            "TESTS": name.partition("_")[0],
            **({"SUBTESTS": part} if part else {}),
            "RDKAFKA_TEST_CONF": str(config),
            "TEST_KAFKA_VERSION": KAFKA_VERSION,
            "LD_LIBRARY_PATH": f"{self._root / 'src'}:{self._root / 'src-cpp'}",
            "CI": "true",
        }
        command = [str(self._root / "tests" / "test-runner"), "-p1", "-L"]
        ended = run_to_end(command, cwd=self.directory, timeout_s=_TEST_TIMEOUT_S, environment=environment)
        return of_librdkafka(test, ended.output)


def of_librdkafka(test: str, output: str) -> Outcome:
    """The outcome of a test, or of a part of one, from what librdkafka's test runner printed."""
    name, _, part = test.partition("/")
    found = re.search(rf"=== Test {name} (PASSED|FAILED|SKIPPED) ===", output)
    result = found[1].lower() if found else "failed"
    if result == "passed" and part and not re.search(rf"\[ {part}\b.*: PASS ", output):
        # The runner passes a test of which it has run no part.
        result = "skipped"
    return _outcome(test, result, output)


class KafkaPython(Suite):
    """The integration tests in the source distribution, which lacks two files of the folder `test`."""

    tests = KAFKA_PYTHON

    def prepare(self) -> None:
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
        package = f"kafka-python=={self.tests.version}"
        downloads = self.directory / "downloads"
        self._codecs = self.directory / "codecs"
        fetch([*pip, "download", "--no-deps", "--no-binary", ":all:", "--dest", str(downloads), package])
        fetch([*pip, "install", "--no-deps", "--only-binary", ":all:", "--target", str(self._codecs), *_CODECS])
        (archive,) = downloads.iterdir()
        with tarfile.open(archive) as packed:
            packed.extractall(self.directory, filter="data")
        (self._root,) = self.directory.glob("kafka_python-*")
        (self._root / "test" / "__init__.py").touch()
        shutil.copy(Path(__file__).parent / "kafka_python_service.py", self._root / "test" / "service.py")

    def asking(self) -> set[str]:
        return set(self._files())

    def _files(self) -> dict[str, Path]:
        """The file of each integration test."""
        paths = sorted((self._root / "test" / "integration").glob("test_*.py"))
        defined = re.compile(r"^ *def (test_\w+)\(", re.MULTILINE)
        return {name: path for path in paths for name in defined.findall(path.read_text(encoding="utf-8"))}

    def run(self, bootstrap: str, tests: Sequence[str]) -> list[Outcome]:
        files = self._files()
        report = self.directory / "report.xml"
        command = [sys.executable, "-m", "pytest", *(f"{files[test]}::{test}" for test in tests)]
        command += ["-p", "no:randomly", "-p", "no:cacheprovider", f"--timeout={_TEST_TIMEOUT_S}"]
        command += ["-o", "addopts=", "-o", "log_level=WARNING", f"--junitxml={report}"]
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")},
            "PYTHONPATH": str(self._codecs),
            "KAFKA_URI": f"kafka://{bootstrap}",
            "KAFKA_VERSION": KAFKA_VERSION,
            "KAFKA_ROOT": str(self._root),
        }
        output = run_to_end(command, cwd=self._root, timeout_s=SUITE_TIMEOUT_S, environment=environment).output
        if not report.exists():
            return [_outcome(test, "failed", output) for test in tests]
        cases: dict[str, list[ElementTree.Element]] = {}
        for case in ElementTree.parse(report).iter("testcase"):
            cases.setdefault(case.attrib["name"].partition("[")[0], []).append(case)
        return [of_cases(test, cases.get(test, [])) for test in tests]


def of_cases(test: str, cases: Iterable[ElementTree.Element]) -> Outcome:
    """The outcome of a test with several parameters, from pytest's report: passed if every case passed."""
    cases = list(cases)
    bad = [part for case in cases for part in case if part.tag in ("failure", "error", "skipped")]
    if cases and not bad:
        return Outcome(test, "passed", "")
    skipped = bool(bad) and all(part.tag == "skipped" for part in bad)
    return _outcome(test, "skipped" if skipped else "failed", "\n".join(part.text or "" for part in bad))


_CRATE = "4.10.0"
"""The version of the crate `rdkafka-sys` with librdkafka's sources."""

_TOXIPROXY = "2.5.0"
_FIRST_PROXY = 29_090
"""Port before the first port that Sarama's tests connect to."""

_CODECS = ("lz4==4.4.5", "zstandard==0.25.0", "python-snappy==0.7.3")
"""Packages with which kafka-python decompresses, beside the installed ones."""

SUITES: Mapping[str, type[Suite]] = {suite.tests.client: suite for suite in (FranzGo, Sarama, Librdkafka, KafkaPython)}


def cluster_for(tests: ClientTests, directory: Path, kafka: ApacheKafka | None = None) -> LocalCluster:
    """A cluster as the tests expect it: a topic that is created automatically has four partitions.

    Args:
        kafka: the Apache Kafka whose brokers to start; None for ours.
    """
    kafkas = {} if kafka is None else dict.fromkeys(range(1, tests.brokers + 1), kafka)
    # The sessions of some groups in these tests are shorter than the default of brokers allows.
    own = {"num.partitions": "4", "group.min.session.timeout.ms": "1000", "group.initial.rebalance.delay.ms": "0"}
    properties = {**(SMALL_BROKER if kafka else {}), **own, **tests.properties}
    return LocalCluster(
        tests.brokers, racks=tests.racks, directory=directory, kafka_brokers=kafkas, properties=properties
    )


def wait_for_listener(port: int, process: subprocess.Popen[bytes]) -> None:
    """Return once a process accepts connections. Raises RuntimeError if it ends or takes too long."""
    deadline = time.monotonic() + _LISTENER_TIMEOUT_S
    while process.poll() is None and time.monotonic() < deadline:
        with contextlib.suppress(OSError), socket.create_connection((HOST, port), timeout=1):
            return
        time.sleep(0.05)
    raise RuntimeError(f"{process.args!r} does not listen on port {port}; exit code {process.poll()}")


def find_program(name: str, what: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise NotFetched(f"no {name} on the PATH; install {what}")
    return found


def find_go() -> str:
    return find_program("go", "a Go toolchain, 1.26 or newer")


def fetch_module(go: str, module: str, directory: Path) -> Path:
    """The folder with the sources of a Go module, given as `path@version`. Raises NotFetched if it fails."""
    return Path(json.loads(fetch([go, "mod", "download", "-json", module], cwd=directory))["Dir"])


def fetch(command: Sequence[str], cwd: Path | None = None) -> str:
    """The standard output of a command that downloads. Raises NotFetched if it fails."""
    try:
        run = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=FETCH_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        raise NotFetched(f"{' '.join(command)} did not end within {FETCH_TIMEOUT_S} s") from None
    if run.returncode != 0:
        raise NotFetched(f"{' '.join(command)} failed:\n{(run.stdout + run.stderr)[-2000:]}")
    return run.stdout


def _built(command: Sequence[str], cwd: Path) -> None:
    """Run a step of a build. Raises NotBuilt if it fails."""
    ended = run_to_end(command, cwd=cwd, timeout_s=BUILD_TIMEOUT_S, environment=os.environ)
    if ended.code != 0:
        raise NotBuilt(f"{' '.join(command)} failed:\n{ended.output[-4000:]}")


class Ended(NamedTuple):
    """The exit code of a process, None if it was killed because it took too long; and all that it printed."""

    code: int | None
    output: str


def run_to_end(command: Sequence[str], *, cwd: Path, timeout_s: int, environment: Mapping[str, str]) -> Ended:
    process = subprocess.Popen(
        command,
        cwd=cwd,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    with process:
        try:
            output, _ = process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output, _ = process.communicate()
            return Ended(None, f"{_COLOURS.sub('', output)}\nkilled after {timeout_s} s")
    return Ended(process.returncode, _COLOURS.sub("", output))


def _outcome(test: str, result: str, output: str) -> Outcome:
    return Outcome(test, result, "" if result == "passed" else output[-3000:])


def cached(name: str, fill: Callable[[Path], None]) -> Path:
    """The folder `name` in the cache outside the repository; filled if it is not there yet."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "understudy"
    folder = cache / name
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "clients.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.is_dir():
            with tempfile.TemporaryDirectory(dir=cache, prefix="building-") as temporary:
                built = Path(temporary) / name
                built.mkdir()
                fill(built)
                built.rename(folder)
    return folder


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Run the tests of one stock client.")
    parser.add_argument("client", choices=sorted(SUITES))
    parser.add_argument("tests", nargs="*", help="names; by default those that have to pass")
    parser.add_argument("--kafka", action="store_true", help="with Apache Kafka's brokers")
    chosen = parser.parse_args(arguments)
    kafka = ApacheKafka.at(kafka_libs(), jvm_options=SMALL_JVM) if chosen.kafka else None
    directory = Path(tempfile.mkdtemp(prefix="client-suite-"))
    suite = SUITES[chosen.client](directory)
    suite.prepare()
    with cluster_for(suite.tests, directory / "run", kafka) as cluster:
        outcomes = suite.run(cluster.bootstrap, chosen.tests or suite.tests.run)
    for outcome in outcomes:
        print(f"{outcome.result:8} {outcome.test}\n{outcome.output}".rstrip())
    passed = sum(outcome.result == "passed" for outcome in outcomes)
    print(f"{passed} of {len(outcomes)} passed; everything is in {directory}")
    return 0 if passed == len(outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
