"""`python -m devtools.prove_wheel` builds the wheel into dist/ and runs what users run, in an environment of its own.

The environment has the wheel and its dependencies, pinned by constraints.txt, and pytest for the plug-in; the working
folder is in no checkout. `--python` chooses the interpreter. The first step that fails ends the proof with exit code 1.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "dist"
MEBIBYTE = 1024 * 1024
MOST_INSTALLED_MIB = 160
"""Maximum size of an installation without extras, pip and setuptools not counted."""
LEFT_OUT = ("pyspark", "pyarrow", "pandas", "numpy")
TIMEOUT_S = 300
A_TEST = """
from understudy.testing import controller_change


def test_another_broker_takes_over(understudy_cluster):
    understudy_cluster.controller.kill()
    understudy_cluster.wait_for(controller_change())
    understudy_cluster.assert_injected("kill", role="controller")
"""


class ProofFailed(Exception):
    """A step of the proof did not do what it should. The message ends with its output."""


@dataclass(frozen=True, slots=True)
class Environment:
    """An environment in which the wheel is installed, and a folder in which its commands run."""

    home: Path
    project: Path

    @property
    def python(self) -> Path:
        return self.home / "bin" / "python"

    def understudy(self, *words: str, code: int = 0) -> str:
        """Run the command, and return what it printed."""
        return self.run(self.home / "bin" / "understudy", *words, code=code)

    def install(self, what: object) -> None:
        """Install a file or a package of the index with pip, with our pins."""
        pip = (self.python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
        self.run(*pip, "--constraint", ROOT / "constraints.txt", what)

    def run(self, *command: object, code: int = 0) -> str:
        """Run a command in the project, and return what it printed. Raises `ProofFailed` if it ends otherwise."""
        done = subprocess.run(
            [str(word) for word in command],
            cwd=self.project,
            env=_clean_environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=TIMEOUT_S,
        )
        if done.returncode != code:
            raise ProofFailed(f"{command}: exit code {done.returncode}, expected {code}\n{done.stdout}")
        return done.stdout


def build_wheel() -> Path:
    """Build the wheel of this checkout into dist/, and return it."""
    for old in DIST.glob("*.whl"):
        old.unlink()
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(DIST), str(ROOT)]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        raise ProofFailed(f"the wheel was not built:\n{done.stdout}")
    (wheel,) = DIST.glob("*.whl")
    return wheel


def install(python: str, wheel: Path, folder: Path) -> Environment:
    """Make an environment with this interpreter, and install the wheel into it."""
    environment = Environment(folder / "environment", folder / "a project")
    environment.project.mkdir()
    subprocess.run([python, "-m", "venv", str(environment.home)], check=True)
    environment.install(wheel)
    return environment


# ------------------------------------------------------------------ steps


def nothing_of_the_analysis_is_installed(environment: Environment) -> str:
    packages = Path(
        environment.run(environment.python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
    )
    found = [name for name in LEFT_OUT if (packages / name).exists()]
    if found:
        raise ProofFailed(f"installed, though no extra was asked for: {found}")
    own = ("pip", "setuptools", "_distutils_hack", "pkg_resources")
    folders = [entry for entry in packages.iterdir() if not entry.name.startswith(own)]
    bytes_installed = sum(file.stat().st_size for entry in folders for file in _files(entry))
    if bytes_installed > MOST_INSTALLED_MIB * MEBIBYTE:
        raise ProofFailed(
            f"{bytes_installed / MEBIBYTE:.0f} MiB are installed, at most {MOST_INSTALLED_MIB} are allowed"
        )
    return f"{bytes_installed / MEBIBYTE:.0f} MiB installed"


def a_cluster_loses_its_controller(environment: Environment) -> str:
    command = [str(environment.home / "bin" / "understudy"), "up", "--brokers", "3", "--dir", "run"]
    with subprocess.Popen(
        command,
        cwd=environment.project,
        env=_clean_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as up:
        try:
            return _kill_its_controller(environment, up)
        finally:
            up.send_signal(signal.SIGINT)
            up.communicate(timeout=TIMEOUT_S)


def _kill_its_controller(environment: Environment, up: subprocess.Popen[str]) -> str:
    deadline = time.monotonic() + TIMEOUT_S
    printed = ""
    assert up.stdout is not None
    while (found := re.search(r"127\.0\.0\.\d+:\d+(?:,127\.0\.0\.\d+:\d+){2}", printed)) is None:
        line = up.stdout.readline()
        if not line or time.monotonic() > deadline:
            raise ProofFailed(f"understudy up printed no bootstrap address:\n{printed}")
        printed += line
    bootstrap = found.group()
    environment.understudy(
        "topics", "--bootstrap-server", bootstrap, "--create", "--topic", "orders", "--partitions", "3"
    )
    first = _controller(environment)
    environment.understudy("kill", "run", "controller")
    while _controller(environment) in (None, first):
        if time.monotonic() > deadline:
            raise ProofFailed(f"no other controller than broker {first}")
    topics = environment.understudy("topics", "--bootstrap-server", bootstrap, "--describe", "--topic", "orders")
    if "PartitionCount: 3" not in topics:
        raise ProofFailed(topics)
    return f"broker {first} was the controller, then broker {_controller(environment)}"


def _controller(environment: Environment) -> str | None:
    found = re.search(r"controller\D*broker\D?(\d+)", environment.understudy("status", "run"), re.IGNORECASE)
    return None if found is None else found.group(1)


def an_experiment_in_the_simulator(environment: Environment) -> str:
    environment.understudy("experiment", "run", "zombie-controller-writes", "--engine", "sim")
    return ""


def the_experiment_on_processes(environment: Environment) -> str:
    environment.understudy("experiment", "run", "kill-controller", "--engine", "real")
    return ""


def a_lesson(environment: Environment) -> str:
    environment.understudy("lesson", "zombie", "--recorded")
    environment.understudy("lesson", "takeover", "--simulated")
    return ""


def the_page_of_the_run(environment: Environment) -> str:
    environment.understudy("page", "run", "-o", "run.html")
    return f"{(environment.project / 'run.html').stat().st_size / MEBIBYTE:.1f} MiB"


def the_pytest_plug_in(environment: Environment) -> str:
    environment.install("pytest")
    (environment.project / "test_mine.py").write_text(A_TEST)
    if "1 passed" not in (printed := environment.run(environment.python, "-m", "pytest", "-q")):
        raise ProofFailed(printed)
    return ""


def the_demo_with_its_report(environment: Environment) -> str:
    return environment.understudy("demo", "--fast").strip().splitlines()[-1]


def a_verb_of_the_analysis_names_its_extra(environment: Environment) -> str:
    printed = environment.understudy("replay", "run", code=1).strip()
    if "pip install 'kafka-understudy[spark]'" not in printed or len(printed.splitlines()) > 1:
        raise ProofFailed(printed)
    return printed


STEPS: tuple[Callable[[Environment], str], ...] = (
    nothing_of_the_analysis_is_installed,
    a_cluster_loses_its_controller,
    an_experiment_in_the_simulator,
    the_experiment_on_processes,
    a_lesson,
    the_page_of_the_run,
    the_pytest_plug_in,
    the_demo_with_its_report,
    a_verb_of_the_analysis_names_its_extra,
)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m devtools.prove_wheel", description=__doc__)
    parser.add_argument("--python", default=sys.executable, help="the interpreter of the environment (this one)")
    options = parser.parse_args(arguments)
    try:
        wheel = build_wheel()
        print(f"{wheel.relative_to(ROOT)}: {wheel.stat().st_size / MEBIBYTE:.1f} MiB", flush=True)
        with tempfile.TemporaryDirectory(prefix="understudy-wheel-") as folder:
            environment = install(options.python, wheel, Path(folder))
            print(environment.run(environment.python, "--version").strip(), flush=True)
            for step in STEPS:
                started = time.monotonic()
                seen = step(environment)
                name = step.__name__.replace("_", " ")
                print(f"{time.monotonic() - started:6.1f} s  {name}{f': {seen}' if seen else ''}", flush=True)
    except ProofFailed as failed:
        print(f"the proof failed: {failed}", file=sys.stderr)
        return 1
    return 0


def _clean_environment() -> dict[str, str]:
    """The variables of this process without those by which Python or we would find something of the checkout."""
    return {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "UNDERSTUDY", "VIRTUAL"))
    }


def _files(entry: Path) -> list[Path]:
    return [entry] if entry.is_file() else [file for file in entry.rglob("*") if file.is_file()]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
