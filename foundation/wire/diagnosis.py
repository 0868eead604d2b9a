"""Finds out why a message could not be decoded or encoded: the field, the offset, and what was expected.

Generated code fails without such details. After a failure this module reads the schema step by step. It implements
Kafka's format independently of the generated code, and tests compare the two.
"""

from __future__ import annotations

from struct import calcsize, unpack_from
from typing import Final, NoReturn

from understudy.foundation.cluster.identifiers import TopicId, topic_id_to_bytes
from understudy.foundation.wire import primitives
from understudy.foundation.wire.codegen import minimum_size
from understudy.foundation.wire.errors import MalformedMessage, UnencodableValue, UnsupportedVersion, WireError
from understudy.foundation.wire.schema import ArrayOf, Field, FixedInt, Message, Plain, StructOf, WireType, fields_of

MOST_ELEMENTS: Final = 20_000
"""Maximum number of elements in a walk, which is some ten times slower than the read that failed: any client can send
such bytes."""


def why_malformed(
    message_type: type[Message], version: int, flexible: bool, data: bytes, *, to_the_end: bool = True
) -> MalformedMessage:
    """Return the error that describes the mistake in `data`.

    After `MOST_ELEMENTS` array elements and tagged fields it names only the place where it stopped.
    """
    walk = _Walk(message_type.__name__, version, flexible, data)
    try:
        walk.struct(message_type, "")
        if to_the_end:
            walk.end()
    except MalformedMessage as found:
        return found
    return MalformedMessage(
        message_type.__name__, version, "", walk.pos, "unreadable, though every field by itself is not"
    )


class _Walk:
    """Reads a message without building it, and checks every step."""

    def __init__(self, message: str, version: int, flexible: bool, data: bytes) -> None:
        self.message = message
        self.version = version
        self.flexible = flexible
        self.data = data
        self.pos = 0
        self.elements = 0

    def struct(self, message: type[Message], path: str) -> None:
        present = [f for f in fields_of(message) if self.version in f.versions]
        for f in present:
            if f.tag is None:
                self.value(f.type, _join(path, f.name), nullable=f.may_be_null(self.version))
        if self.flexible:
            self.tagged_fields({f.tag: f for f in present if f.tag is not None}, path)

    def value(self, wire_type: WireType, path: str, *, nullable: bool) -> None:
        match wire_type:
            case FixedInt(code):
                self.take(calcsize(f">{code}"), path)
            case Plain.UUID:
                self.take(16, path)
            case Plain.STRING | Plain.BYTES:
                self.text_or_bytes(wire_type, path, nullable)
            case ArrayOf(element):
                at = self.pos
                count = self.length(path, nullable, legacy="i")
                least = minimum_size(element, self.version, self.flexible)
                if count * least > self.left:
                    self.fail(path, f"{count} elements need {count * least} bytes at least, {self.left} are left", at)
                if isinstance(element, FixedInt):
                    self.take(count * least, path)
                    return
                for index in range(count):
                    self.count_element(f"{path}[{index}]")
                    self.value(element, f"{path}[{index}]", nullable=False)
            case StructOf(message):
                if nullable and unpack_from(">b", self.take(1, path))[0] < 0:
                    return
                self.struct(message, path)

    def count_element(self, path: str) -> None:
        if self.elements == MOST_ELEMENTS:
            self.fail(
                path, f"unreadable here or further on; {MOST_ELEMENTS} elements before it were looked at", self.pos
            )
        self.elements += 1

    def text_or_bytes(self, wire_type: Plain, path: str, nullable: bool) -> None:
        at = self.pos
        is_string = wire_type is Plain.STRING
        size = self.length(path, nullable, legacy="h" if is_string else "i")
        if is_string and size > primitives.MAX_STRING_BYTES:
            self.fail(path, f"string of {size} bytes; at most {primitives.MAX_STRING_BYTES} are allowed", at)
        raw = self.take(size, path)
        if is_string:
            try:
                raw.decode()
            except UnicodeDecodeError as error:
                self.fail(path, f"not UTF-8: {error.reason}", self.pos - size + error.start)

    def length(self, path: str, nullable: bool, *, legacy: str) -> int:
        """Read a length; null counts as 0."""
        at = self.pos
        size = (
            self.uvarint(path) - 1
            if self.flexible
            else int(unpack_from(f">{legacy}", self.take(calcsize(f">{legacy}"), path))[0])
        )
        if size == -1 and nullable:
            return 0
        if size == -1:
            self.fail(path, "null, but this field is never null in this version", at)
        if size < 0:
            self.fail(path, f"length {size} is negative", at)
        return size

    def uvarint(self, path: str) -> int:
        at = self.pos
        try:
            value, self.pos = primitives.read_uvarint(self.data, self.pos)
        except ValueError as error:
            self.fail(path, str(error), at)
        except IndexError:
            self.fail(path, "the message ends inside a varint", at)
        return value

    def tagged_fields(self, known: dict[int, Field], path: str) -> None:
        at = self.pos
        count = self.uvarint(_join(path, "tagged fields"))
        if 2 * count > self.left:
            self.fail(
                _join(path, "tagged fields"), f"{count} need {2 * count} bytes at least, {self.left} are left", at
            )
        for _ in range(count):
            self.count_element(_join(path, "tagged fields"))
            number = self.uvarint(_join(path, "tagged fields"))
            field = known.get(number)
            name = _join(path, field.name if field else f"tag {number}")
            size = self.uvarint(name)
            at = self.pos
            self.take(size, name)
            if field:
                self.pos = at
                self.value(field.type, name, nullable=field.may_be_null(self.version))
                if self.pos != at + size:
                    self.fail(name, f"tagged field announced {size} bytes and has {self.pos - at}", at)

    def take(self, size: int, path: str) -> bytes:
        if size > self.left:
            self.fail(path, f"needs {size} bytes, {self.left} are left", self.pos)
        self.pos += size
        return self.data[self.pos - size : self.pos]

    def end(self) -> None:
        if self.left:
            self.fail("", f"{self.left} bytes follow the end of the message", self.pos)

    @property
    def left(self) -> int:
        return len(self.data) - self.pos

    def fail(self, path: str, reason: str, offset: int) -> NoReturn:
        raise MalformedMessage(self.message, self.version, path, offset, reason)


def why_unencodable(message: Message, version: int, flexible: bool) -> WireError:
    """Return the error that describes which value cannot be encoded, and why."""
    found = _bad_struct(message, version, flexible, type(message).__name__)
    return found or UnencodableValue(
        f"{type(message).__name__} v{version}: cannot be written, though every field by itself can"
    )


def _bad_struct(message: Message, version: int, flexible: bool, path: str) -> WireError | None:
    for f in fields_of(type(message)):
        value: object = getattr(message, f.name)
        name = f"{path}.{f.name}"
        if version not in f.versions:
            if not f.ignorable and value != f.default:
                return UnsupportedVersion(f"{name} is set to {_short(value)}, but version {version} has no such field")
        elif value is None and f.nullable_since is not None:
            if not f.may_be_null(version):
                return UnsupportedVersion(
                    f"{name} is None, but in version {version} it cannot be null; {f.nullable_since} and later can"
                )
        elif found := _bad_value(f.type, value, version, flexible, name):
            return found
    return None


def _bad_value(wire_type: WireType, value: object, version: int, flexible: bool, path: str) -> WireError | None:
    match wire_type, value:
        case StructOf(message), Message() if isinstance(value, message):
            return _bad_struct(value, version, flexible, path)
        case ArrayOf(element), tuple() | list():
            checks = (
                _bad_value(element, item, version, flexible, f"{path}[{index}]") for index, item in enumerate(value)
            )
            return next((found for found in checks if found), None)
        case FixedInt("?"), int():
            return None
        case FixedInt("d"), float() | int():
            return None
        case FixedInt(code), int() if code != "d":
            bits = 8 * calcsize(f">{code}")
            if -(1 << bits - 1) <= value < 1 << bits - 1:
                return None
            return UnencodableValue(f"{path} is {value}; expected an integer of {bits} bits")
        case Plain.STRING, str():
            return _bad_string(value, path)
        case Plain.BYTES, bytes() | bytearray() | memoryview():
            return None
        case Plain.UUID, str():
            try:
                topic_id_to_bytes(TopicId(value))
            except ValueError:
                return UnencodableValue(f"{path} is {value!r}; expected a topic id of 22 base64 characters")
            return None
    return UnencodableValue(f"{path} is {_short(value)}; expected {_expectation(wire_type)}")


def _bad_string(value: str, path: str) -> WireError | None:
    try:
        size = len(value.encode())
    except UnicodeEncodeError as error:
        return UnencodableValue(f"{path} is {_short(value)}, which is no Unicode text: {error.reason}")
    if size > primitives.MAX_STRING_BYTES:
        return UnencodableValue(
            f"{path} is a string of {size} bytes; at most {primitives.MAX_STRING_BYTES} can be sent"
        )
    return None


def _expectation(wire_type: WireType) -> str:
    match wire_type:
        case FixedInt(code):
            return {"?": "a bool", "d": "a number"}.get(code, "an integer")
        case Plain():
            return {Plain.STRING: "a string", Plain.BYTES: "bytes", Plain.UUID: "a topic id"}[wire_type]
        case ArrayOf(element):
            return f"a tuple, each element {_expectation(element)}"
        case StructOf(message):
            return f"a {message.__name__}"


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
