"""Replaces functions of Python that are written in C, whichever modules have imported them.

Each function of a module in C is one object, to which `from time import monotonic` at the top of a module, a default
argument and an attribute of a class all refer. The object itself is changed: it calls a Python function from then on,
whose exceptions reach the caller. CPython alone has these objects; PyPy and free-threaded builds are refused.

A class method in C is an attribute of its class, and each access makes a new object of it. The attribute is replaced,
and so is each object that was made before and still exists.
"""

from __future__ import annotations

import ctypes
import gc
import sys
import sysconfig
import types
from collections.abc import Callable
from typing import Any, Final

_VARARGS, _KEYWORDS = 0x0001, 0x0002
HEADER: Final = object.__basicsize__
"""Number of bytes before the first field of an object."""


class _MethodDef(ctypes.Structure):
    """CPython's `PyMethodDef`."""

    _fields_ = [
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    ]


class _Function(ctypes.Structure):
    """CPython's `PyCFunctionObject`."""

    _fields_ = [
        ("header", ctypes.c_byte * HEADER),
        ("method", ctypes.POINTER(_MethodDef)),
        ("own", ctypes.py_object),
        ("module", ctypes.c_void_p),
        ("weak_references", ctypes.c_void_p),
        ("vectorcall", ctypes.c_void_p),
    ]


_kept: list[object] = []
"""What the replaced objects point to must stay alive."""


def require_cpython() -> None:
    """Raise RuntimeError if this interpreter does not have the objects that are replaced."""
    name, version = sys.implementation.name, sys.version.split()[0]
    if name != "cpython":
        raise RuntimeError(f"virtual time replaces clocks in CPython's tables, and this is {name}: use CPython")
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        raise RuntimeError(
            "virtual time replaces clocks in CPython's tables, and this is the free-threaded build of CPython "
            f"{version}: use the build with a GIL"
        )
    if ctypes.sizeof(ctypes.c_void_p) != 8:
        raise RuntimeError("virtual time replaces clocks in CPython's tables of 64 bits: use a 64-bit Python")


def replace(owner: types.ModuleType, name: str, replacement: Callable[..., Any]) -> None:
    """Call `replacement` instead of a function in C of a module.

    Args:
        replacement: gets the original as its first argument, then the arguments of the call.
    """
    function = getattr(owner, name)
    if not isinstance(function, types.BuiltinFunctionType):
        raise TypeError(f"{owner.__name__}.{name} is no function in C, but {function!r}")
    original = copy_of(function)
    _redirect(function, _bound(replacement, original))


def replace_class_methods(*replaced: tuple[type, str, Callable[..., Any]]) -> None:
    """Call other functions instead of class methods in C.

    Args:
        replaced: the class, the name of its method, and the replacement, which gets the original as its first argument,
            the class as its second one, then the arguments of the call.
    """
    # One look at all objects for all methods: it takes as long as many virtual seconds of a run.
    made_before = [
        (each, each.__self__)
        for each in all_objects()
        if type(each) is types.BuiltinMethodType and isinstance(each.__self__, type)
    ]
    for owner, name, replacement in replaced:
        made = [each for each, cls in made_before if each.__name__ == name and issubclass(cls, owner)]
        _replace_class_method(owner, name, replacement, made)


def replace_everywhere(owner: Any, name: str, replacement: Any) -> None:
    """Set an attribute of a module, and each global of a loaded module that refers to the same object.

    It serves classes, and functions that are written in Python. It misses default arguments and attributes of classes.
    """
    original = getattr(owner, name)
    setattr(owner, name, replacement)
    for module in tuple(sys.modules.values()):
        names = getattr(module, "__dict__", None)
        if isinstance(names, dict) and not str(module.__name__).startswith(_KEEP_ORIGINALS):
            for each in [key for key, value in names.items() if value is original]:
                names[each] = replacement


_KEEP_ORIGINALS: Final = ("understudy.", "multiprocessing.", "_pytest.", "concurrent.futures.process")


def _bound(replacement: Callable[..., Any], original: Callable[..., Any], *first: Any) -> Callable[..., Any]:
    def call(*given: Any, **named: Any) -> Any:
        return replacement(original, *first, *given, **named)

    call.__name__ = call.__qualname__ = original.__name__
    return call


def copy_of(function: types.BuiltinFunctionType) -> Any:
    """A function in C that does what another one does now."""
    create = ctypes.pythonapi.PyCFunction_NewEx
    create.restype = ctypes.py_object
    create.argtypes = [ctypes.POINTER(_MethodDef), ctypes.py_object, ctypes.py_object]
    return create(_Function.from_address(id(function)).method, function.__self__, function.__module__)


def _redirect(function: types.BuiltinFunctionType, target: Callable[..., Any]) -> None:
    """Let a function in C call a Python function: its C code becomes `PyObject_Call`, and its `self` the function."""
    entry = _Function.from_address(id(function))
    before = entry.method.contents
    call = ctypes.cast(ctypes.pythonapi.PyObject_Call, ctypes.c_void_p)
    method = _MethodDef(before.name, call.value, _VARARGS | _KEYWORDS, before.doc)
    _kept.extend((function, target, method))
    entry.method = ctypes.pointer(method)
    entry.own = target
    entry.vectorcall = None


def all_objects() -> list[Any]:
    """All objects that the garbage collector follows, those that are frozen included."""
    if not gc.get_freeze_count():
        return gc.get_objects()
    gc.unfreeze()
    found = gc.get_objects()
    gc.freeze()
    return found


def _replace_class_method(
    owner: type, name: str, replacement: Callable[..., Any], made_before: list[types.BuiltinMethodType]
) -> None:
    descriptor = owner.__dict__[name]

    def method(cls: Any, /, *given: Any, **named: Any) -> Any:
        return replacement(descriptor.__get__(None, cls), cls, *given, **named)

    method.__name__ = name
    method.__qualname__ = f"{owner.__qualname__}.{name}"
    method.__doc__ = descriptor.__doc__
    names: Any = gc.get_referents(owner.__dict__)[0]  # the dictionary behind the read-only view
    names[name] = classmethod(method)
    modified = ctypes.pythonapi.PyType_Modified
    modified.argtypes, modified.restype = [ctypes.py_object], None
    modified(owner)
    for each in made_before:
        _redirect(each, _bound(replacement, copy_of(each), each.__self__))
