"""What `simulated` makes a test of, and what it refuses."""

from __future__ import annotations

import inspect
import subprocess
import sys
from typing import Any

import pytest

from understudy.testing import simulated
from understudy.testing.simulated_tests.arguments import checked_arguments
from understudy.testing.simulated_tests.decorator import BadSimulatedTest, simulated_test


async def cases(cluster: Any, number: int) -> None:
    """Be a test with an argument beside the cluster."""


def test_the_cluster_is_no_parameter_of_the_test() -> None:
    assert list(inspect.signature(simulated()(cases)).parameters) == ["number"]


def test_a_method_keeps_its_object() -> None:
    class Cases:
        @simulated(seeds=2)
        async def case(self, cluster: Any, number: int) -> None:
            pass

    assert list(inspect.signature(Cases.case).parameters) == ["self", "number"]


def test_the_test_is_no_coroutine_function_and_keeps_its_name() -> None:
    test = simulated(seeds=2)(cases)
    assert not inspect.iscoroutinefunction(test)
    assert (test.__name__, test.__doc__) == (cases.__name__, cases.__doc__)


def test_it_needs_no_parentheses() -> None:
    declared = simulated_test(simulated(cases))
    assert declared is not None
    assert declared.arguments == checked_arguments({})


def test_a_function_that_is_not_asynchronous_is_refused() -> None:
    with pytest.raises(BadSimulatedTest, match=r"is not asynchronous.* write `async def`"):
        simulated(lambda cluster: None)


def test_a_coroutine_is_refused() -> None:
    with pytest.raises(BadSimulatedTest, match="got the coroutine cases, which can run only once"):
        simulated(cases(None, 1))  # type: ignore[call-overload]  # that is the mistake


def test_an_asynchronous_generator_is_refused() -> None:
    async def generator(cluster: Any) -> Any:
        yield cluster

    with pytest.raises(BadSimulatedTest, match="without `yield`"):
        simulated(generator)


def test_a_value_that_is_no_function_is_refused() -> None:
    with pytest.raises(BadSimulatedTest, match="got 100, and expected a coroutine function"):
        simulated(100)  # type: ignore[call-overload]  # that is the mistake


def test_a_test_without_a_parameter_for_the_cluster_is_refused() -> None:
    async def no_parameter() -> None:
        pass

    class Cases:
        async def case(self) -> None:
            pass

    with pytest.raises(BadSimulatedTest, match=r"no parameter for the cluster: write `async def .*\(cluster\)`"):
        simulated(no_parameter)
    with pytest.raises(BadSimulatedTest, match=r"write `async def .*\(self, cluster\)`"):
        simulated(Cases.case)


def test_a_simulated_test_is_not_simulated_again() -> None:
    with pytest.raises(BadSimulatedTest, match="has @simulated twice"):
        simulated(simulated(cases))


def test_a_module_that_declares_a_test_loads_no_broker() -> None:
    program = (
        "import sys\nfrom understudy.testing import simulated\n@simulated(seeds=3, faults='none')\n"
        "async def test(cluster): pass\nprint([name for name in sys.modules if name.startswith('understudy.brokers')])"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert found == "[]\n"
