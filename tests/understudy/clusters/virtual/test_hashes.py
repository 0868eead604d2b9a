"""Objects hash by numbers: a set of them has the same order in each run of a seed."""

from __future__ import annotations

import asyncio
import functools
import random
import subprocess
import sys
import types
from collections.abc import Callable
from typing import Any

import pytest

from tests.understudy.clusters.virtual.subjects import SimulatedSubject
from understudy.testing.simulated_tests.workers.forks import Child

OBJECTS = 40


class Topic:
    """A class without a hash of its own, as most classes are."""

    def changed(self) -> None:
        """Do nothing."""


class ByObject(Topic):
    """A class whose hash is the one of `object`."""

    def __hash__(self) -> int:
        return super().__hash__()


class Declared:
    """A class with slots, to whose instances weak references can be made."""

    __slots__ = ("__weakref__",)


def made(kind: type[Any]) -> Any:
    """Make an instance of a class that is defined during the run."""

    class Later(kind):  # type: ignore[misc]  # a class as the run defines one
        pass

    return Later()


async def _wait() -> None:
    await asyncio.sleep(0)


KINDS: dict[str, Callable[[], Any]] = {
    "instances": Topic,
    "instances with slots": Declared,
    "instances that call the hash of object": ByObject,
    "instances of a class that is defined later": lambda: made(Topic),
    "bound methods": lambda: Topic().changed,
    "functions": lambda: lambda: None,
    "partial functions": lambda: functools.partial(print),
    "generators": lambda: (each for each in range(1)),
    "futures": lambda: asyncio.get_running_loop().create_future(),
    "futures of gather": lambda: asyncio.gather(asyncio.sleep(0)),
    "tasks": lambda: asyncio.create_task(_wait()),
    "events": asyncio.Event,
}


def order_in_a_set(make: Callable[[], Any], displaced: int) -> list[int]:
    """Make objects at addresses in another order, and return the order in which a set of them has them."""

    async def case() -> list[int]:
        # Objects get the memory of those that were freed last, of their size.
        holes = [bytes(size) for size in range(1, 1_000, 8) for _ in range(OBJECTS * 4)]
        random.Random(displaced).shuffle(holes)
        del holes[len(holes) // 4 :]
        objects = [make() for _ in range(OBJECTS)]
        places = {id(each): place for place, each in enumerate(objects)}
        return [places[id(each)] for each in set(objects)]

    return SimulatedSubject().run(case)


@pytest.mark.parametrize("kind", KINDS)
def test_a_set_has_the_same_order_whichever_addresses_its_objects_have(kind: str) -> None:
    orders = [Child(lambda: order_in_a_set(KINDS[kind], displaced)).result() for displaced in (1, 2)]  # noqa: B023
    assert orders[0] == orders[1]
    assert sorted(orders[0]) == list(range(OBJECTS))


def test_a_number_ends_with_its_object() -> None:
    SimulatedSubject().kernel.close()
    found = {hash(Topic()) for _ in range(OBJECTS)}  # each at the address of the one before
    assert len(found) == OBJECTS


def test_equal_bound_methods_have_the_same_hash() -> None:
    SimulatedSubject().kernel.close()
    topic, other = Topic(), Topic()
    assert hash(topic.changed) == hash(topic.changed)
    assert hash(topic.changed) != hash(other.changed)
    assert {topic.changed, topic.changed, other.changed} == {other.changed, topic.changed}


def test_a_bound_method_of_a_function_that_has_no_hash_has_one() -> None:
    SimulatedSubject().kernel.close()

    class Function:
        __hash__ = None  # type: ignore[assignment]  # as a class with `__eq__` alone

        def __call__(self, *_: object) -> None:
            """Do nothing."""

    method = types.MethodType(Function(), Topic())
    assert hash(method) == hash(method)


PROGRAM = """
import gc
from understudy.clusters.virtual import hashes

class Topic:
    def changed(self):
        pass

class ByObject(Topic):
    def __hash__(self):
        return super().__hash__()

class Last(Topic):
    names = set()
    def __del__(self, names=names):
        names.add(self)
        names.discard(self)

topic, by_object = Topic(), ByObject()
before = [topic, by_object, topic.changed, Topic, print, Topic.changed, gc, None, int, object(), (topic, None)]
counted = {each: place for place, each in enumerate(before)}
hashes.install()
assert [counted[each] for each in before] == list(range(len(before)))
assert hash(topic) == hash(topic) and hash(object) == hash(object)
last = Last()
last.own = last
print(hash(last) == hash(last))
"""


def test_objects_that_exist_before_keep_their_hash_and_the_interpreter_ends_as_before() -> None:
    found = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)
    assert (found.returncode, found.stdout, found.stderr) == (0, "True\n", "")
