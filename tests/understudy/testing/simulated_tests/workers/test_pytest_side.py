"""Simulated tests under pytest: which seeds run, what a failure shows, and other plug-ins in the same project."""

from __future__ import annotations

import os
import select
import subprocess
import sys
from importlib.util import find_spec

import pytest

from understudy.testing.simulated_tests.workers import addresses

pytest_plugins = ["pytester"]
PLUGIN = "understudy.pytest_plugin"

CASES = """
import asyncio
import pytest
from understudy.testing import simulated

@pytest.fixture
def table():
    return {"expected": 2}

@simulated(seeds=4, faults="none")
async def test_passes(cluster, tmp_path):
    print("printed by a passed seed")
    (tmp_path / "seed").write_text("one")
    await asyncio.sleep(1)

@simulated(seeds=4, faults="none")
async def test_fails(cluster, table):
    print("seed", cluster.seed, "prints")
    await asyncio.sleep(1)
    assert {"seeds": cluster.seed} != {"seeds": table["expected"]}

@pytest.mark.parametrize("number", [1, 2])
@simulated(seeds=2, faults="none")
async def test_with_parameters(cluster, number):
    assert number == 1

@simulated(seeds=2, faults="none")
async def test_skips_itself(cluster):
    pytest.skip("there is no Thursday in it")

@pytest.fixture
def thursday():
    pytest.skip("a fixture of this case skips it, before its seeds")

@pytest.mark.usefixtures("thursday")
@simulated(seeds=2, faults="none")
async def test_is_skipped(cluster):
    raise AssertionError

class TestAsMethod:
    @simulated(seeds=2, faults="none")
    async def test_method(self, cluster):
        await asyncio.sleep(1)

def test_ordinary():
    assert True
"""


NO_WORKERS = """
import understudy.testing.simulated_tests.workers.pool as pool

def refuse(*_):
    raise AssertionError("a worker was started")

pool.Pool._new_worker = refuse
"""


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A project whose interpreter hashes strings otherwise each time."""
    monkeypatch.delenv("PYTHONHASHSEED", raising=False)
    for name in ("SEED", "SEEDS", "PAGE", "WORKERS"):
        monkeypatch.delenv(f"UNDERSTUDY_{name}", raising=False)
    return pytester


def run(project: pytest.Pytester, *options: str) -> pytest.RunResult:
    return project.runpytest_subprocess("-p", PLUGIN, "-p", "no:randomly", *options, timeout=120)


def assert_the_cases_are_reported(result: pytest.RunResult) -> None:
    result.assert_outcomes(passed=4, failed=2, skipped=2)
    shown = result.stdout.str()
    # The user's own assertion with the values of the failing seed, and what this one has printed.
    assert """>       assert {"seeds": cluster.seed} != {"seeds": table["expected"]}""" in shown
    assert "E       AssertionError: assert {'seeds': 2} != {'seeds': 2}" in shown
    assert "seed 2 prints" in shown
    assert "seed 1 prints" not in shown
    assert "printed by a passed seed" not in shown
    assert "--understudy-seed 2" in shown
    assert "test_cases.py::test_with_parameters[2]" in shown
    assert "there is no Thursday in it" in shown


def test_seeds_run_in_workers(project: pytest.Pytester) -> None:
    project.makepyfile(test_cases=CASES)
    assert_the_cases_are_reported(run(project, "-rs"))


def test_seeds_run_in_forks_of_a_process_that_is_like_a_worker(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONHASHSEED", "0")
    project.makeconftest(NO_WORKERS)
    project.makepyfile(test_cases=CASES)
    with addresses.fixed():
        assert_the_cases_are_reported(run(project, "-rs"))


def test_the_failing_run_prints_at_once_if_nothing_is_captured(project: pytest.Pytester) -> None:
    project.makepyfile(test_cases=CASES)
    shown = run(project, "-s", "-k", "test_fails or test_passes").stdout.str()
    assert "seed 2 prints" in shown
    assert "seed 1 prints" not in shown
    assert "printed by a passed seed" not in shown


def test_each_worker_of_xdist_has_a_worker_of_its_own(project: pytest.Pytester) -> None:
    project.makepyfile(
        test_cases=CASES,
        test_workers="""
        import os
        from understudy.testing import simulated

        @simulated(seeds=8, faults="none")
        async def test_workers(cluster, worker_id, tmp_path_factory):
            assert worker_id.startswith("gw")
            assert worker_id.endswith("understudy0"), "the only worker of this process of xdist"
        """,
    )
    result = run(project, "-n", "2", "-rs")
    result.assert_outcomes(passed=5, failed=2, skipped=2)


def test_one_seed_is_chosen(project: pytest.Pytester) -> None:
    project.makepyfile(test_cases=CASES)
    run(project, "--understudy-seed", "3", "-k", "test_fails").assert_outcomes(passed=1)
    result = run(project, "--understudy-seed", "2", "-k", "test_fails")
    result.assert_outcomes(failed=1)
    assert "seed 2 prints" in result.stdout.str()


def test_more_seeds_are_chosen(project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    project.makepyfile(
        """
        from understudy.testing import simulated

        @simulated(seeds=1, faults="none")
        async def test_it(cluster):
            assert cluster.seed != 3
        """
    )
    run(project).assert_outcomes(passed=1)
    run(project, "--understudy-seeds", "4").assert_outcomes(failed=1)
    monkeypatch.setenv("UNDERSTUDY_SEEDS", "4")
    run(project).assert_outcomes(failed=1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--understudy-seed", "twelve"), "--understudy-seed is a whole number from 0, and not 'twelve'"),
        (("--understudy-seeds", "0"), "--understudy-seeds is a whole number from 1, and not 0"),
        (("--understudy-workers", "-2"), "--understudy-workers is a whole number from 1, and not -2"),
    ],
)
def test_an_option_that_is_no_number_is_refused(
    project: pytest.Pytester, options: tuple[str, ...], message: str
) -> None:
    project.makepyfile(test_cases=CASES)
    result = run(project, *options)
    assert message in result.stdout.str() + result.stderr.str()
    assert result.ret == pytest.ExitCode.USAGE_ERROR


def test_a_process_that_dies_is_an_error_that_names_the_seed(project: pytest.Pytester) -> None:
    project.makepyfile(
        """
        import ctypes, os
        from understudy.testing import simulated

        @simulated(seeds=3, faults="none")
        async def test_exit(cluster):
            if cluster.seed == 1:
                os._exit(7)

        @simulated(seeds=3, faults="none")
        async def test_worker(cluster):
            if cluster.seed == 1:
                system = ctypes.CDLL(None)
                system.kill(system.getppid(), 9)

        @simulated(seeds=3, faults="none")
        async def test_nested(cluster):
            test_exit()

        @simulated(seeds=3, faults="none")
        async def test_after_it(cluster):
            pass
        """
    )
    result = run(project)
    result.assert_outcomes(passed=1, failed=3)
    shown = result.stdout.str()
    assert "seed 1 fails: the process has ended with exit code 7" in shown
    assert "a worker process has ended while it ran seed" in shown
    assert "test_exit is called within another simulated test" in shown


def test_a_fixture_that_fails_in_a_worker_alone_is_named(project: pytest.Pytester) -> None:
    project.makepyfile(
        """
        import pytest
        from understudy.testing import simulated

        @pytest.fixture
        def only_here(request):
            assert not hasattr(request.config, "workerinput"), "the table is locked"

        @simulated(seeds=3, faults="none")
        async def test_it(cluster, only_here):
            pass
        """
    )
    result = run(project)
    result.assert_outcomes(failed=1)
    assert "the table is locked" in result.stdout.str()


def test_options_of_the_project_reach_the_workers(project: pytest.Pytester) -> None:
    project.makeconftest(
        """
        import pytest

        def pytest_addoption(parser):
            parser.addoption("--broker-count")

        @pytest.fixture
        def count(request):
            return int(request.config.getoption("--broker-count"))
        """
    )
    project.makepyfile(
        """
        from understudy.testing import simulated

        @simulated(seeds=2, faults="none")
        async def test_it(cluster, count):
            assert count == 5
        """
    )
    run(project, "--broker-count=5", "-x", "--junitxml=found.xml").assert_outcomes(passed=1)
    assert (project.path / "found.xml").read_text().count("<testcase") == 1


def test_the_plug_ins_of_anyio_and_asyncio_keep_their_tests(project: pytest.Pytester) -> None:
    """Auto mode of pytest-asyncio takes each coroutine function, and a simulated test is none."""
    project.makepyfile(
        """
        import asyncio
        import pytest
        from understudy.testing import simulated

        @pytest.mark.anyio
        async def test_of_anyio():
            await asyncio.sleep(0)

        @simulated(seeds=2, faults="none")
        async def test_of_ours(cluster):
            await asyncio.sleep(5)
        """
    )
    modes = [("-o", "asyncio_mode=auto"), ("-o", "asyncio_mode=strict")] if find_spec("pytest_asyncio") else [()]
    for options in modes:
        run(project, *options).assert_outcomes(passed=2)


def test_each_set_of_parameters_has_a_page_of_its_own(project: pytest.Pytester) -> None:
    """Two of them have characters that a file name cannot have."""
    project.makepyfile(
        test_pages="""
        import pytest
        from understudy.testing import simulated

        @pytest.mark.parametrize("topic", ["orders", "or/ders", "or:ders"])
        @simulated(seeds=1, faults="none", brokers=1)
        async def test_fails(cluster, topic):
            raise ValueError(topic)
        """
    )
    run(project, "--understudy-page=pages", "-k", "fails").assert_outcomes(failed=3)
    folders = sorted(page.parent.name for page in (project.path / "pages").glob("*/run.html"))
    assert folders[2] == "test_pages.test_fails-orders-seed-0"
    assert len(folders) == 3
    assert all(folder.startswith("test_pages.test_fails-or-ders-") for folder in folders[:2])


def test_a_failure_prints_where_its_page_shows_it(project: pytest.Pytester) -> None:
    """The page is in pytest's cache, from which pages of earlier days are removed."""
    project.makepyfile(
        test_pages="""
        import asyncio
        from understudy.testing import simulated

        async def bills():
            raise LookupError("no order")

        @simulated(seeds=1, faults="none", brokers=1)
        async def test_fails(cluster):
            cluster.start(bills, name="billing")
            await asyncio.sleep(1)
        """
    )
    pages = project.path / ".pytest_cache" / "d" / "understudy-pages"
    for old in ("days", "minutes"):
        (pages / old).mkdir(parents=True)
    os.utime(pages / "days", (0, 0))
    result = run(project)
    page = pages / "test_pages.test_fails-seed-0" / "run.html"
    result.stdout.fnmatch_lines([f"see it: *{page.as_uri()}#at=billing.1.2&show=client:billing"])
    assert page.exists()
    assert [(pages / old).exists() for old in ("days", "minutes")] == [False, True]


def test_a_future_of_another_loop_is_refused_with_its_cause(project: pytest.Pytester) -> None:
    project.makepyfile(
        """
        import asyncio
        import pytest
        from understudy.testing import simulated

        @pytest.fixture
        def loop():
            loop = asyncio.new_event_loop()
            yield loop
            loop.close()

        @simulated(seeds=1, faults="none")
        async def test_awaits(cluster, loop):
            future = asyncio.Future(loop=loop)
            await future

        @simulated(seeds=1, faults="none")
        async def test_calls(cluster, loop):
            loop.call_soon(print)
        """
    )
    result = run(project)
    result.assert_outcomes(failed=2)
    shown = result.stdout.str()
    assert "create the client in the test, or in a service that cluster.start starts" in shown
    assert "call_soon() of an event loop that is not simulated cannot be simulated, called at" in shown


def test_a_breakpoint_is_refused_to_many_seeds(project: pytest.Pytester) -> None:
    project.makepyfile(
        """
        from understudy.testing import simulated

        @simulated(seeds=5, faults="none")
        async def test_it(cluster):
            breakpoint()
        """
    )
    result = run(project)
    result.assert_outcomes(failed=1)
    assert "breakpoint() needs the terminal" in result.stdout.str()


@pytest.mark.parametrize(
    ("line", "options"), [("assert here < 4", ["--pdb"]), ("breakpoint()", ["--understudy-seed", "4"])]
)
def test_a_debugger_has_the_terminal_and_the_frame_of_the_test(
    project: pytest.Pytester, line: str, options: list[str]
) -> None:
    project.makepyfile(
        test_it=f"""
        from understudy.testing import simulated

        @simulated(seeds=6, faults="none")
        async def test_it(cluster):
            here = cluster.seed
            {line}
            assert True
        """
    )
    command = [sys.executable, "-m", "pytest", "-p", PLUGIN, "-p", "no:randomly", "test_it.py", *options]
    ours, theirs = os.openpty()
    program = subprocess.Popen(command, cwd=project.path, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    answers = [b"p here * 1000\n", b"c\n"]
    shown = b""
    try:
        while select.select([ours], [], [], 60)[0] and (piece := _read(ours)):
            shown += piece
            if answers and shown.endswith(b"(Pdb) "):
                os.write(ours, answers.pop(0))
    finally:
        program.kill()
        program.wait()
        os.close(ours)
    assert b"4000" in shown
    assert answers == []
    assert shown.count(b"(Pdb)") == 2


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 1 << 16)
    except OSError:  # Linux, if no process has the other end any more
        return b""


def test_no_worker_is_started_for_tests_that_are_not_run(project: pytest.Pytester) -> None:
    project.makeconftest(NO_WORKERS)
    project.makepyfile(test_cases=CASES)
    run(project, "-k", "ordinary").assert_outcomes(passed=1, deselected=7)
    assert run(project, "--collect-only").ret == pytest.ExitCode.OK


def test_the_report_has_the_last_lines_of_what_the_failing_run_has_printed(project: pytest.Pytester) -> None:
    project.makepyfile("""
        from understudy.testing import simulated

        @simulated(seeds=1, faults="none")
        async def test_it(cluster):
            for number in range(100):
                print("line", number)
            raise ValueError("it fails")
        """)
    lines = run(project).stdout.str()
    assert "60 earlier lines are left out" in lines
    assert "\nline 60\n" in lines
    assert "\nline 59\n" not in lines
    assert "replay it:" in lines


def test_a_worker_that_cannot_load_the_simulator_says_why(project: pytest.Pytester) -> None:
    project.makeconftest("""
        import os
        import sys

        if os.environ.get("PYTHONHASHSEED") == "0":  # a worker
            sys.modules["understudy.testing.simulated_tests.run"] = None
        """)
    project.makepyfile("""
        from understudy.testing import simulated

        @simulated(seeds=1)
        async def test_it(cluster):
            pass
        """)
    result = run(project)
    result.assert_outcomes(failed=1)
    assert "import of understudy.testing.simulated_tests.run halted" in result.stdout.str()
