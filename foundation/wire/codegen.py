"""Generates the source of a reader and a writer for each message class and version.

A failover sends hundreds of thousands of partition states, and interpreting the schema of each field costs ten times
the work itself. The generated function is what one would write by hand for its version: neighbouring integers are read
or packed by one `struct` call, together with the length of the array after them; nested structs are loops; absent
fields are left out. `python -m understudy.foundation.wire LeaderAndIsrRequest 7` prints it.

On bytes or values that cannot be right, the functions raise a `ValueError`, `IndexError`, `struct.error` … without
details. `understudy.foundation.wire.diagnosis` then finds the details, off the hot path.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from struct import Struct, calcsize

from understudy.foundation.cluster.identifiers import topic_id_from_bytes, topic_id_to_bytes
from understudy.foundation.wire import primitives
from understudy.foundation.wire.schema import ArrayOf, Field, FixedInt, Message, Plain, StructOf, WireType, fields_of


@dataclass(slots=True)
class GeneratedSource:
    """The source of a function: its lines, and the objects that its global names stand for."""

    lines: list[str] = field(default_factory=list)
    names: dict[str, object] = field(default_factory=dict)
    depth: int = 0

    def line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        self.line(head)
        self.depth += 1
        yield
        self.depth -= 1

    def bind(self, value: object, name: str) -> str:
        """Return a global name for `value`: `name`, with a number if another object has it."""
        name = name.replace("?", "o")  # `struct`'s letter for bool is no identifier
        candidate, number = name, 1
        while candidate in self.names and self.names[candidate] is not value:
            number += 1
            candidate = f"{name}_{number}"
        self.names[candidate] = value
        return candidate

    def default(self, f: Field) -> str:
        """Return a global name for the default of a field."""
        return self.bind(f.default, f"default_{f.name}")

    def primitive(self, name: str) -> str:
        """Return a global name for a function of `primitives`."""
        return self.bind(getattr(primitives, name), name)

    def text(self) -> str:
        return "\n".join(self.lines) + "\n"


def minimum_size(wire_type: WireType, version: int, flexible: bool) -> int:
    """Return the fewest bytes of a value, by which an array's length is checked before anything is built."""
    match wire_type:
        case FixedInt(code):
            return calcsize(f">{code}")
        case Plain.UUID:
            return 16
        case Plain.STRING:
            return 1 if flexible else 2
        case Plain.BYTES | ArrayOf():
            return 1 if flexible else 4
        case StructOf(message):
            present = (f for f in fields_of(message) if version in f.versions and f.tag is None)
            sizes = (
                1
                if isinstance(f.type, StructOf) and f.may_be_null(version)
                else minimum_size(f.type, version, flexible)
                for f in present
            )
            return sum(sizes) + (1 if flexible else 0)


# ------------------------------------------------------------------ reading


def reader_source(message: type[Message], version: int, *, flexible: bool, to_the_end: bool = True) -> GeneratedSource:
    """Generate `read(data: bytes, pos: int = 0) -> message`; with `to_the_end` it refuses bytes after the message."""
    return _Reader(version, flexible).function(message, to_the_end=to_the_end)


class _Reader:
    """Emits reads. Integers are collected in `run` until a field of variable length or the end of a struct."""

    def __init__(self, version: int, flexible: bool) -> None:
        self.source = GeneratedSource()
        self.version = version
        self.flexible = flexible
        self.run: list[tuple[str, str]] = []  # struct letter, target
        self.after_run: list[str] = []

    def function(self, message: type[Message], *, to_the_end: bool) -> GeneratedSource:
        source = self.source
        with source.block("def read(data, pos=0):"):
            source.line("size = len(data)")
            result = self.struct(message, 0)
            if to_the_end:
                with source.block("if pos != size:"):
                    source.line("raise ValueError")
            source.line(f"return {result}")
        return source

    def struct(self, message: type[Message], depth: int) -> str:
        """Emit the reads of a struct's fields; return the expression that builds it from them."""
        present = [f for f in fields_of(message) if self.version in f.versions]
        for f in present:
            if f.tag is None:
                self.value(f.type, self._local(f, depth), depth, nullable=f.may_be_null(self.version))
        if self.flexible:
            self.tagged_fields([f for f in present if f.tag is not None], depth)
        self.flush()
        arguments = ", ".join(f"{f.name}={self._local(f, depth)}" for f in present)
        return f"{self.source.bind(message, message.__name__)}({arguments})"

    def value(self, wire_type: WireType, target: str, depth: int, *, nullable: bool) -> None:
        match wire_type:
            case FixedInt(code):
                self.run.append((code, target))
            case Plain.UUID:
                self.run.append(("16s", target))
                self.after_run.append(f"{target} = {self.source.bind(topic_id_from_bytes, 'topic_id')}({target})")
            case Plain.STRING:
                self.text_or_bytes(target, ".decode()", nullable=nullable, legacy_length="h")
            case Plain.BYTES:
                self.text_or_bytes(target, "", nullable=nullable, legacy_length="i")
            case ArrayOf(FixedInt(code)):
                self.integers(code, target, nullable=nullable)
            case ArrayOf(element):
                self.array(element, target, depth, nullable=nullable)
            case StructOf(message) if nullable:
                self.run.append(("b", "n"))
                self.flush()
                with self.source.block("if n < 0:"):
                    self.source.line(f"{target} = None")
                with self.source.block("else:"):
                    self.source.line(f"{target} = {self.struct(message, depth + 1)}")
            case StructOf(message):
                self.flush()
                self.source.line(f"{target} = {self.struct(message, depth + 1)}")

    def length(self, legacy: str) -> None:
        """Emit the read of a length into `n`; -1 is null."""
        self.length_prefix(legacy)
        self.decode_length()

    def length_prefix(self, legacy: str) -> None:
        """Emit the read of an encoded length into `n`, together with the integers before it."""
        self.run.append(("B" if self.flexible else legacy, "n"))
        self.flush()

    def decode_length(self) -> None:
        if self.flexible:
            with self.source.block("if n > 127:"):
                self.source.line(f"n, pos = {self.source.primitive('read_rest_of_uvarint')}(data, pos, n)")
            self.source.line("n -= 1")

    @contextmanager
    def null_or(self, target: str, nullable: bool) -> Iterator[None]:
        if not nullable:
            yield
            return
        with self.source.block("if n == -1:"):
            self.source.line(f"{target} = None")
        with self.source.block("else:"):
            yield

    def text_or_bytes(self, target: str, convert: str, *, nullable: bool, legacy_length: str) -> None:
        source = self.source
        self.length(legacy_length)
        with self.null_or(target, nullable):
            source.line("end = pos + n")
            longest = f" or n > {primitives.MAX_STRING_BYTES}" if convert and self.flexible else ""
            with source.block(f"if n < 0 or end > size{longest}:"):
                source.line("raise ValueError")
            source.line(f"{target} = data[pos:end]{convert}")
            source.line("pos = end")

    def integers(self, code: str, target: str, *, nullable: bool) -> None:
        """Emit the read of an array of integers, by one call. Empty ones are tested first: most of Kafka's are."""
        source = self.source
        self.length_prefix("i")
        with source.block(f"if n == {1 if self.flexible else 0}:"):
            source.line(f"{target} = ()")
        with source.block("else:"):
            self.decode_length()
            with self.null_or(target, nullable):
                source.line(f"{target} = {source.bind(_integer_arrays(code), f'arrays_{code}')}[n](data, pos)")
                source.line(f"pos += {calcsize('>' + code)} * n")

    def array(self, element: WireType, target: str, depth: int, *, nullable: bool) -> None:
        source = self.source
        self.length("i")
        with self.null_or(target, nullable):
            with source.block(f"if not 0 <= n * {minimum_size(element, self.version, self.flexible)} <= size - pos:"):
                source.line("raise ValueError")
            source.line(f"{target} = []")
            source.line(f"append_{depth} = {target}.append")
            with source.block("for _ in range(n):"):
                if isinstance(element, StructOf):
                    item = self.struct(element.message, depth + 1)
                else:
                    item = f"item_{depth}"
                    self.value(element, item, depth + 1, nullable=False)
                    self.flush()
                source.line(f"append_{depth}({item})")
            source.line(f"{target} = tuple({target})")

    def tagged_fields(self, known: list[Field], depth: int) -> None:
        source = self.source
        self.run.append(("B", "n"))
        self.flush()
        if not known:
            with source.block("if n:"):
                source.line(f"pos = {self.source.primitive('skip_tagged_fields')}(data, pos, n)")
            return
        read_uvarint = self.source.primitive("read_uvarint")
        for f in known:
            source.line(f"{self._local(f, depth)} = {self.source.default(f)}")
        with source.block("if n > 127:"):
            source.line(f"n, pos = {self.source.primitive('read_rest_of_uvarint')}(data, pos, n)")
        with source.block("if n * 2 > size - pos:"):
            source.line("raise ValueError")
        with source.block("for _ in range(n):"):
            source.line(f"tag, pos = {read_uvarint}(data, pos)")
            source.line(f"n, pos = {read_uvarint}(data, pos)")
            source.line(f"end_{depth} = pos + n")
            with source.block(f"if end_{depth} > size:"):
                source.line("raise ValueError")
            branch = "if"
            for f in known:
                with source.block(f"{branch} tag == {f.tag}:"):
                    self.value(f.type, self._local(f, depth), depth, nullable=f.may_be_null(self.version))
                    self.flush()
                branch = "elif"
            with source.block("else:"):
                source.line(f"pos = end_{depth}")
            with source.block(f"if pos != end_{depth}:"):
                source.line("raise ValueError")

    def flush(self) -> None:
        """Emit the read of the collected integers by one call; of a single byte by its index."""
        letters = "".join(code for code, _ in self.run)
        targets = ", ".join(target for _, target in self.run)
        if letters == "B":
            self.source.line(f"{targets} = data[pos]")
            self.source.line("pos += 1")
        elif letters:
            unpack = self.source.bind(_unpack(letters), f"unpack_{letters}")
            self.source.line(f"{targets}{',' if len(self.run) == 1 else ''} = {unpack}(data, pos)")
            self.source.line(f"pos += {calcsize('>' + letters)}")
        for line in self.after_run:
            self.source.line(line)
        self.run.clear()
        self.after_run.clear()

    def _local(self, f: Field, depth: int) -> str:
        return f"{f.name}_{depth}"


# ------------------------------------------------------------------ writing


def writer_source(message: type[Message], version: int, *, flexible: bool) -> GeneratedSource:
    """Generate `write(message)`, which returns parts of the bytes: they are joined with the header, by one copy."""
    return _Writer(version, flexible).function(message)


class _Writer:
    """Emits writes. Integers, and arrays of integers, are collected in `run` to be packed by one call.

    `run` has pairs of `struct` letter and expression; an array has its letter with a star.
    """

    def __init__(self, version: int, flexible: bool) -> None:
        self.source = GeneratedSource()
        self.version = version
        self.flexible = flexible
        self.append = "append"
        self.run: list[tuple[str, str]] = []

    def function(self, message: type[Message]) -> GeneratedSource:
        source = self.source
        with source.block("def write(message):"):
            source.line("out = []")
            source.line("append = out.append")
            self.struct(message, "message", 0)
            source.line("return out")
        return source

    def struct(self, message: type[Message], subject: str, depth: int) -> None:
        present = []
        for f in fields_of(message):
            if self.version in f.versions:
                present.append(f)
            elif not f.ignorable:
                # A field that this version lacks must have the default, which its reader assumes.
                with self.source.block(f"if {subject}.{f.name} != {self.source.default(f)}:"):
                    self.source.line("raise ValueError")
        for f in present:
            if f.tag is None:
                self.value(
                    f.type, f"{subject}.{f.name}", f"{f.name}_{depth}", depth, nullable=f.may_be_null(self.version)
                )
        if self.flexible:
            self.tagged_fields([f for f in present if f.tag is not None], subject, depth)
        self.flush()

    def value(self, wire_type: WireType, subject: str, local: str, depth: int, *, nullable: bool) -> None:
        match wire_type:
            case FixedInt(code):
                self.run.append((code, subject))
            case Plain.UUID:
                self.run.append(("16s", f"{self.source.bind(topic_id_to_bytes, 'topic_id_bytes')}({subject})"))
            case Plain.STRING:
                self.text(subject, local, nullable=nullable)
            case Plain.BYTES:
                self.raw_bytes(subject, local, nullable=nullable)
            case ArrayOf(FixedInt(code)) if not nullable:
                self.assign(local, subject)
                self.run.append((f"*{code}", local))
            case ArrayOf(element):
                self.array(element, subject, local, depth, nullable=nullable)
            case StructOf(message) if nullable:
                self.flush()
                self.assign(local, subject)
                with self.source.block(f"if {local} is None:"):
                    self.source.line(rf"{self.append}(b'\xff')")
                with self.source.block("else:"):
                    self.run.append(("b", "1"))
                    self.struct(message, local, depth + 1)
            case StructOf(message):
                self.assign(local, subject)
                self.struct(message, local, depth + 1)

    def text(self, subject: str, local: str, *, nullable: bool) -> None:
        self.flush()
        write = self.source.primitive(f"write_{'compact' if self.flexible else 'legacy'}_string")
        if nullable:
            self.assign(local, subject)
            self.source.line(f"{self.append}({self.null(2)} if {local} is None else {write}({local}))")
        else:
            self.source.line(f"{self.append}({write}({subject}))")

    def raw_bytes(self, subject: str, local: str, *, nullable: bool) -> None:
        """Emit the writes of a length and of the bytes themselves, which are not copied here: they may be megabytes."""
        self.assign(local, subject)
        with self.null_or(local, nullable):
            self.length(local)
            self.source.line(f"{self.append}({local})")

    def array(self, element: WireType, subject: str, local: str, depth: int, *, nullable: bool) -> None:
        source = self.source
        self.assign(local, subject)
        with self.null_or(local, nullable):
            self.length(local)
            with source.block(f"for item_{depth} in {local}:"):
                if isinstance(element, StructOf):
                    self.struct(element.message, f"item_{depth}", depth + 1)
                else:
                    self.value(element, f"item_{depth}", f"value_{depth}", depth + 1, nullable=False)
                    self.flush()

    @contextmanager
    def null_or(self, local: str, nullable: bool) -> Iterator[None]:
        if not nullable:
            yield
            return
        self.flush()
        with self.source.block(f"if {local} is None:"):
            self.source.line(f"{self.append}({self.null(4)})")
        with self.source.block("else:"):
            yield

    def length(self, local: str) -> None:
        if self.flexible:
            self.flush()
            self.source.line(f"{self.append}({self.source.primitive('write_uvarint')}(len({local}) + 1))")
        else:
            self.run.append(("i", f"len({local})"))
            self.flush()

    def tagged_fields(self, known: list[Field], subject: str, depth: int) -> None:
        """Emit the writes of tagged fields that differ from their defaults; without any, one zero byte."""
        if not known:
            self.run.append(("x", ""))
            return
        source, append = self.source, self.append
        self.flush()
        source.line(f"tagged_{depth} = []")
        for f in sorted(known, key=lambda f: f.tag or 0):
            local = f"{f.name}_{depth}"
            source.line(f"{local} = {subject}.{f.name}")
            with source.block(f"if {local} != {self.source.default(f)}:"):
                source.line(f"value_{depth} = []")
                self.append = f"value_{depth}.append"
                self.value(f.type, local, local, depth, nullable=f.may_be_null(self.version))
                self.flush()
                tagged = f"{self.source.primitive('write_tagged_field')}({f.tag}, b''.join(value_{depth}))"
                source.line(f"tagged_{depth}.append({tagged})")
        self.append = append
        source.line(f"{append}({self.source.primitive('write_uvarint')}(len(tagged_{depth})))")
        with source.block(f"if tagged_{depth}:"):
            source.line(f"{append}(b''.join(tagged_{depth}))")

    def flush(self) -> None:
        """Emit the packing of the collected run by one call; with arrays, its packer is looked up by their lengths."""
        arrays = [(code[1:], local) for code, local in self.run if code.startswith("*")]
        if not self.run:
            return
        if not arrays:
            letters = "".join(code for code, _ in self.run)
            arguments = ", ".join(expression for _, expression in self.run if expression)
            if not arguments:
                self.source.line(f"{self.append}({bytes(len(letters))!r})")
            else:
                pack = self.source.bind(_pack(letters), f"pack_{letters}")
                self.source.line(f"{self.append}({pack}({arguments}))")
        else:
            self._flush_shape(arrays)
        self.run.clear()

    def _flush_shape(self, arrays: list[tuple[str, str]]) -> None:
        parts, arguments, prefixes = [""], list[str](), list[str]()
        for code, expression in self.run:
            if code.startswith("*"):
                prefixes.append(f"n{len(prefixes)}")
                arguments += [prefixes[-1], f"*{expression}"]
                parts.append("")
            else:
                parts[-1] += code
                arguments += [expression] if expression else []
        table = primitives.Shapes(tuple(parts), tuple(code for code, _ in arrays), flexible=self.flexible)
        shapes = self.source.bind(table, "shapes")
        lengths = ", ".join(f"len({local})" for _, local in arrays)
        self.source.line(f"pack, {', '.join(prefixes)} = {shapes}[{lengths}{',' if len(arrays) == 1 else ''}]")
        self.source.line(f"{self.append}(pack({', '.join(arguments)}))")

    def assign(self, local: str, subject: str) -> None:
        if local != subject:
            self.source.line(f"{local} = {subject}")

    def null(self, legacy_bytes: int) -> str:
        return repr(b"\0" if self.flexible else b"\xff" * legacy_bytes)


# ------------------------------------------------------------------ what all generated functions share


@cache
def _unpack(letters: str) -> Callable[[bytes, int], tuple[object, ...]]:
    return Struct(f">{letters}").unpack_from


@cache
def _pack(letters: str) -> Callable[..., bytes]:
    return Struct(f">{letters}").pack


@cache
def _integer_arrays(code: str) -> primitives.IntegerArrays:
    return primitives.IntegerArrays(code)
