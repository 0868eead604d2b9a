"""Replaces functions of Python that are written in C, whichever modules have imported them.

A function in C is a pointer in a table of its module or class. The pointer is replaced, as time-machine does it: `from
time import monotonic` at the top of a module, a default argument and an attribute of a class all lead to the
replacement. Only CPython has these tables.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from typing import Any, Final

_VARARGS, _KEYWORDS, _NOARGS, _O, _FASTCALL = 0x0001, 0x0002, 0x0004, 0x0008, 0x0080
_KIND: Final = _VARARGS | _KEYWORDS | _NOARGS | _O | _FASTCALL

_object, _size = ctypes.py_object, ctypes.c_ssize_t
_objects = ctypes.POINTER(ctypes.py_object)


class _MethodDef(ctypes.Structure):
    """CPython's `PyMethodDef`."""

    _fields_ = [
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    ]


_HEADER: Final = object.__basicsize__
"""Number of bytes before the first field of an object."""
_METHOD_DEF_OF_DESCRIPTOR: Final = _HEADER + 3 * ctypes.sizeof(ctypes.c_void_p)
"""Offset of `PyMethodDescrObject.d_method`: it follows the type, name and qualified name."""

_kept: list[object] = []
"""What the tables point to must stay alive."""


def replace(owner: Any, name: str, replacement: Callable[..., Any]) -> None:
    """Call `replacement` instead of a function in C.

    Args:
        owner: the module or class that has the function.
        replacement: gets the original as its first argument, then the arguments of the call; for a method of a class,
            the class comes before them. It must not raise: an exception cannot leave it, and becomes a SystemError.

    Raises:
        RuntimeError: the interpreter is not CPython, or calls the function in an unknown way.
    """
    if sys.implementation.name != "cpython":
        raise RuntimeError(f"virtual time needs CPython, and this is {sys.implementation.name}")
    method = _method_def(owner, name)
    kind = method.flags & _KIND
    if kind in (_NOARGS, _O):
        prototype = ctypes.PYFUNCTYPE(_object, _object, _object if kind == _O else ctypes.c_void_p)
    elif kind == _VARARGS:
        prototype = ctypes.PYFUNCTYPE(_object, _object, _object)
    elif kind == _FASTCALL:
        prototype = ctypes.PYFUNCTYPE(_object, _object, _objects, _size)
    elif kind == _FASTCALL | _KEYWORDS:
        prototype = ctypes.PYFUNCTYPE(_object, _object, _objects, _size, ctypes.c_void_p)
    elif kind == _VARARGS | _KEYWORDS:
        prototype = ctypes.PYFUNCTYPE(_object, _object, _object, ctypes.c_void_p)
    else:
        raise RuntimeError(f"{name} is called in an unknown way: {kind:#x}")
    original = prototype(method.function)
    is_class = isinstance(owner, type)
    adapter = _ADAPTERS[kind](original, replacement, is_class)
    entry = prototype(adapter)
    _kept.extend((original, entry, adapter))
    method.function = ctypes.cast(entry, ctypes.c_void_p).value


def replace_everywhere(owner: Any, name: str, replacement: Any) -> None:
    """Set an attribute of a module, and each global of a loaded module that refers to the same object.

    It serves functions that raise, which `replace` cannot. It misses default arguments and attributes of classes.
    """
    original = getattr(owner, name)
    setattr(owner, name, replacement)
    for module in tuple(sys.modules.values()):
        names = getattr(module, "__dict__", None)
        if isinstance(names, dict) and not module.__name__.startswith(("understudy.", "multiprocessing.", "_pytest.")):
            for each in [key for key, value in names.items() if value is original]:
                names[each] = replacement


def _method_def(owner: Any, name: str) -> _MethodDef:
    """The table entry of a function of a module, or of a class method."""
    if isinstance(owner, type):
        address = id(owner.__dict__[name]) + _METHOD_DEF_OF_DESCRIPTOR
    else:
        address = id(getattr(owner, name)) + _HEADER
    return ctypes.cast(ctypes.c_void_p.from_address(address), ctypes.POINTER(_MethodDef)).contents


def _without_arguments(original: Any, replacement: Any, is_class: bool) -> Any:
    if is_class:
        return lambda self, _: replacement(lambda: original(self, None), self)
    return lambda self, _: replacement(lambda: original(self, None))


def _with_one(original: Any, replacement: Any, is_class: bool) -> Any:
    return lambda self, value: replacement(lambda given: original(self, given), value)


def _with_tuple(original: Any, replacement: Any, is_class: bool) -> Any:
    return lambda self, values: replacement(lambda *given: original(self, given), *values)


def _fast(original: Any, replacement: Any, is_class: bool) -> Any:
    def call(self: Any, values: Any, count: int) -> Any:
        return replacement(lambda: original(self, values, count), *(values[place] for place in range(count)))

    return call


def _fast_with_keywords(original: Any, replacement: Any, is_class: bool) -> Any:
    def call(self: Any, values: Any, count: int, names: int | None) -> Any:
        keywords = () if not names else ctypes.cast(names, _object).value
        given = [values[place] for place in range(count)]
        named = {name: values[count + place] for place, name in enumerate(keywords)}
        own = (self,) if is_class else ()
        return replacement(lambda: original(self, values, count, names), *own, *given, **named)

    return call


def _with_dict(original: Any, replacement: Any, is_class: bool) -> Any:
    def call(self: Any, values: Any, names: int | None) -> Any:
        named = {} if not names else ctypes.cast(names, _object).value
        own = (self,) if is_class else ()
        return replacement(lambda: original(self, values, names), *own, *values, **named)

    return call


_ADAPTERS: Final = {
    _NOARGS: _without_arguments,
    _O: _with_one,
    _VARARGS: _with_tuple,
    _FASTCALL: _fast,
    _FASTCALL | _KEYWORDS: _fast_with_keywords,
    _VARARGS | _KEYWORDS: _with_dict,
}
