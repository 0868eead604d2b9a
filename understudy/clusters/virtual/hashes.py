"""Lets objects hash by a number instead of their address: sets of them have the same order in each run of a seed.

An object whose class defines no hash hashes by its address in memory. A program that loops over a set of topics,
listeners or tasks would do so in an order that two runs of a seed do not share. `install` changes this in the whole
operating system process, for good: such an object has a number, which it gets when it is first hashed. Objects that
exist before keep their hash, because dictionaries have them as keys; so do all classes that exist before.

An object needs a weak reference to have a number, by which it is known that another object has its address now.
`object()`, None before Python 3.12, and instances of a class whose `__slots__` lack `__weakref__` hash by their
address.
"""

from __future__ import annotations

import ctypes
import itertools
import types
import weakref
from collections.abc import Callable, Iterator
from typing import Any, Final

from understudy.clusters.virtual.replacement import HEADER, all_objects, require_cpython

_HASH_SLOT: Final = 120
"""Offset of `tp_hash` in CPython's `PyTypeObject`, on machines of 64 bits."""
_WRAPPED: Final = HEADER + 4 * ctypes.sizeof(ctypes.c_void_p)
"""Offset of `d_wrapped` in CPython's `PyWrapperDescrObject`."""
_FIRST_OF_RUN: Final = 1 << 32

_Hash = ctypes.PYFUNCTYPE(ctypes.c_ssize_t, ctypes.py_object)

_numbered: dict[int, _Number] = {}
"""The numbers of objects by their addresses. One of an object that is gone stays until another one has its address."""
_numbers: Iterator[int] = itertools.count(1)
_is_installed = False


class _Number(weakref.ref[Any]):
    """The number of an object."""

    __slots__ = ("number",)
    number: int


def install() -> None:
    """Let objects hash by a number. Harmless if it was called before.

    Raises:
        RuntimeError: the interpreter is not CPython with a GIL, or its objects have another layout.
    """
    global _is_installed
    if _is_installed:
        return
    require_cpython()
    _is_installed = True
    by_address = _slot(object).value
    wrapped = ctypes.c_void_p.from_address(id(object.__dict__["__hash__"]) + _WRAPPED)
    if by_address is None or wrapped.value != by_address:
        raise RuntimeError("this version of Python has another layout of object.__hash__")
    hash_by_address = _Hash(by_address)
    each: Any
    for each in all_objects():
        if type(each).__weakrefoffset__:
            _give(each, hash_by_address(each))
    by_number = _in_c(_by_number(hash_by_address))
    for cls in _classes():
        if _slot(cls).value == by_address and cls.__weakrefoffset__ and not issubclass(cls, type):
            _slot(cls).value = by_number
    # Classes that are defined later inherit these two.
    _slot(object).value = by_number
    wrapped.value = by_number
    _slot(types.MethodType).value = _in_c(_of_method)


def restart() -> None:
    """Begin a run: the objects that it hashes have the same numbers in each run."""
    global _numbers
    _numbers = itertools.count(_FIRST_OF_RUN)


def _by_number(hash_by_address: Callable[[object], int]) -> Callable[[object], int]:
    def hash_of(each: object) -> int:
        known = _numbered.get(id(each))
        if known is not None and known() is each:
            return known.number
        if not type(each).__weakrefoffset__:
            return hash_by_address(each)
        return _give(each, next(_numbers))

    return hash_of


def _of_method(method: types.MethodType) -> int:
    """Hash a bound method: equal ones have the same object, and equal functions."""
    own = object.__hash__(method.__self__)
    try:
        found = own ^ hash(method.__func__)
    except TypeError:  # it is any object that can be called, and an exception could not leave this function
        return own
    return -2 if found == -1 else found  # as CPython: −1 is the sign of an exception


def _give(each: object, number: int) -> int:
    # Without a callback: the interpreter would call it when its own classes are gone. The next object replaces it.
    given = _numbered[id(each)] = _Number(each)
    given.number = number
    return number


def _classes() -> list[type]:
    """All classes, in a list: a set would hash them."""
    found: dict[int, type] = {}
    left: list[type] = [object]
    each: type
    while left:
        for each in type.__subclasses__(left.pop()):
            if id(each) not in found:
                found[id(each)] = each
                left.append(each)
    return list(found.values())


def _slot(cls: type) -> ctypes.c_void_p:
    return ctypes.c_void_p.from_address(id(cls) + _HASH_SLOT)


def _in_c(function: Callable[[Any], int]) -> int | None:
    """Return the address of a function in C that calls a Python function, which must not raise."""
    entry = _Hash(function)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(entry))  # objects are hashed until the last of them is gone
    return ctypes.cast(entry, ctypes.c_void_p).value
