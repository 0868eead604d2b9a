"""A copy of the repository in a temporary folder, in which one token at a time is changed and judged.

Every process of a judgement runs in the copy, with `TMPDIR` inside it, in a group of processes that is killed at the
end: a mutant cannot change the repository or stay behind.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from devtools.token_mutants.sites import Mutant

TEST_TIMEOUT_S = 120
"""Maximum time that one test takes."""
SLOWER = 10
"""Maximum factor between the time of all tests together and their measured time; machines are busy with other work at
times."""
SEED_TIMEOUT_S = 120
_NOTICED = re.compile(r"^(?:FAILED|ERROR) (\S.*)$", re.MULTILINE)
_NO_SUCH_TEST = "ERROR: not found: "
_PYTEST = ("-m", "pytest", "-q", "-n", "0", "-p", "no:randomly", "-p", "no:cacheprovider")


@dataclass(frozen=True, slots=True)
class Verdict:
    """Who has noticed a mutant: `step` is `tests`, `seeds` or, if neither has, `survived`."""

    step: str
    by: str = ""


@dataclass(slots=True)
class Workshop:
    folder: Path
    _running: subprocess.Popen[str] | None = None

    def stop(self) -> None:
        """Kill what runs in this copy; the judgement in progress is then worth nothing."""
        if self._running is not None and self._running.poll() is None:
            _kill(self._running)

    def copy(self, folder: Path) -> Workshop:
        """Return another workshop in a new folder, with the compiled files of this one."""
        shutil.copytree(self.folder, folder, symlinks=True)
        return Workshop(folder)

    def profiled(self, files: Sequence[str]) -> list[dict[str, Any]]:
        """Run the tests of these files and return what `devtools.token_mutants.calls` has written."""
        calls = self.folder / "calls.jsonl"
        chosen = ["-p", "devtools.token_mutants.calls", "--calls", str(calls), "-m", "not slow and not docker", *files]
        code, output = self._run([*_PYTEST, *chosen], timeout_s=3600, compiles=True)
        print(output.rstrip().rsplit("\n", 1)[-1], flush=True)
        if code not in (0, 1):
            raise RuntimeError(f"the tests do not run on unchanged code:\n{output}")
        return [json.loads(line) for line in calls.read_text().splitlines()]

    def warm(self, folders: Sequence[str]) -> None:
        """Compile everything that the tests of these folders import, so that a mutant compiles one file only."""
        code, output = self._run([*_PYTEST, "--collect-only", *folders], timeout_s=600, compiles=True)
        if code != 0:
            raise RuntimeError(f"the tests cannot be collected on unchanged code:\n{output}")

    def judge(self, mutant: Mutant, tests: Sequence[str], measured_s: float, seeds: range, seconds: int) -> Verdict:
        """Run the tests, one after the other until one fails, then the seeds, with this one token changed."""
        with self._changed(mutant):
            if tests:
                verdict = self._by_tests(tests, 60 + SLOWER * measured_s)
                if verdict is not None:
                    return verdict
            return self._by_seeds(seeds, seconds)

    def _by_tests(self, tests: Sequence[str], timeout_s: float) -> Verdict | None:
        chosen = ("-x", "--tb=line", "--timeout", str(TEST_TIMEOUT_S), *tests)
        try:
            code, output = self._run([*_PYTEST, *chosen], timeout_s=timeout_s)
        except subprocess.TimeoutExpired:
            return Verdict("tests", f"no end within {timeout_s:.0f} s")
        if code == 0:
            return None
        noticed = _NOTICED.search(output)
        if noticed is not None:
            return Verdict("tests", noticed.group(1).partition(" - ")[0])
        files = list(dict.fromkeys(test.partition("::")[0] for test in tests))
        if code == pytest.ExitCode.USAGE_ERROR and _NO_SUCH_TEST in output and files != list(tests):
            # The name of a test with parameters may contain the value that is changed.
            return self._by_tests(files, timeout_s)
        # pytest itself ends if the first modules that it loads cannot be imported.
        return Verdict("tests", "import" if "Error" in output else f"pytest's exit code {code}")

    def _by_seeds(self, seeds: range, seconds: int) -> Verdict:
        command = ["-m", "devtools.token_mutants.seeds", str(seeds.start), str(seeds.stop), str(seconds)]
        timeout_s = SEED_TIMEOUT_S * len(seeds)
        try:
            code, output = self._run(command, timeout_s=timeout_s)
        except subprocess.TimeoutExpired:
            return Verdict("seeds", f"no end within {timeout_s} s")
        return Verdict("survived") if code == 0 else Verdict("seeds", output.strip().rsplit("\n", 1)[-1][:160])

    @contextmanager
    def _changed(self, mutant: Mutant) -> Iterator[None]:
        path = self.folder / mutant.file
        source, before = path.read_text(), path.stat()
        path.write_text(mutant.applied_to(source))
        # A compiled file is valid for one time of change, in seconds, and one size: a mutant gets another time.
        os.utime(path, (before.st_atime, before.st_mtime + 10))
        try:
            yield
        finally:
            path.write_text(source)
            os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))

    def _run(self, arguments: Sequence[str], *, timeout_s: float, compiles: bool = False) -> tuple[int, str]:
        """Run Python in the copy and return its exit code and output.

        Raises:
            subprocess.TimeoutExpired: it has not ended in time, and was killed.
        """
        temporary = self.folder / "tmp"
        temporary.mkdir(exist_ok=True)
        environment = {**os.environ, "PYTHONPATH": str(self.folder), "TMPDIR": str(temporary), "PYTHONHASHSEED": "0"}
        if not compiles:
            environment["PYTHONDONTWRITEBYTECODE"] = "1"
        with subprocess.Popen(
            [sys.executable, *arguments],
            cwd=self.folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        ) as process:
            self._running = process
            try:
                output, _ = process.communicate(timeout=timeout_s)
            finally:
                # Also those that the tests have started.
                _kill(process)
                process.wait()
                shutil.rmtree(temporary, ignore_errors=True)
        return process.returncode, output


def _kill(process: subprocess.Popen[str]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


@contextmanager
def first_workshop(root: Path) -> Iterator[Workshop]:
    """A copy of the working tree in a temporary folder, which also takes the copies made of it."""
    with tempfile.TemporaryDirectory(prefix="understudy-mutants-") as temporary:
        first = Workshop(Path(temporary).resolve() / "0")
        listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        names = subprocess.run(listing, cwd=root, capture_output=True, check=True, text=True).stdout
        for name in filter(None, names.split("\0")):
            if (root / name).is_symlink() or (root / name).is_file():
                (first.folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(root / name, first.folder / name, follow_symlinks=False)
        yield first
