"""Tests that the architecture page and the docstrings of packages name files and names that exist."""

from __future__ import annotations

import importlib.util
import re
from functools import cache
from pathlib import PurePosixPath

import pytest

from devtools.pages.kafka_names import counterparts, names_in
from devtools.pages.source import DOCS, docstring, parse, path_of, product_files
from tests.test_tidy import name_of, tracked_files
from tests.timing import shared
from understudy.brokers.config.dynamic_keys import BROKER_KEYS

ARCHITECTURE = "inside/architecture.md"
PACKAGES = [path for path in product_files() if path.endswith("/__init__.py")]

_QUOTED = re.compile(r"`([^`]+)`")
_COMMAND = re.compile(r"\s|-")
_OF_KAFKA = re.compile(r"(?:kafka|org\.apache\.kafka|common)\.|(?:__consumer_offsets|server\.properties|KafkaService)$")


@cache
def paths() -> frozenset[str]:
    """Every file and every folder of the repository; a folder ends with a slash."""
    files = [PurePosixPath(name_of(path)) for path in tracked_files()]
    folders = {folder for file in files for folder in file.parents if folder.name}
    return frozenset([*map(str, files), *(f"{folder}/" for folder in folders)])


@shared
def definitions() -> frozenset[str]:
    """The names at the top of the product's modules, and Kafka's names that are in the table."""
    of_kafka = {part for row in counterparts() for part in row.kafka.split(".")}
    return frozenset(of_kafka.union(*map(names_in, product_files())))


def is_path(name: str) -> bool:
    """Whether a file or folder of the repository has this path, or one that ends with it."""
    return any(path == name or path.endswith(f"/{name}") for path in paths())


def is_module_near(name: str, folder: str) -> bool:
    """Whether a module or package of this name, dots for slashes, is in a folder or beside one of its parents."""
    inside = name.removesuffix("/").removesuffix(".py").replace(".", "/")
    near = [PurePosixPath(folder), *PurePosixPath(folder).parents]
    return any(f"{at / inside}{end}" in paths() for at in near for end in (".py", "/"))


def exists(name: str, folder: str) -> bool:
    """Whether a name in the docstring of a package is a command, of Kafka, a path, a module or a definition."""
    if _COMMAND.search(name) or _OF_KAFKA.match(name) or name in BROKER_KEYS or is_module_near(name, folder):
        return True
    if name.startswith("understudy."):
        module, _, attribute = name.rpartition(".")
        return is_importable(name) or (path_of(module) in product_files() and attribute in names_in(path_of(module)))
    return name in definitions() or ("." not in name and is_importable(name))


def is_importable(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def test_every_file_and_folder_of_the_architecture_page_exists() -> None:
    named = {
        name for name in _QUOTED.findall((DOCS / ARCHITECTURE).read_text()) if re.search(r"\.(?:py|js)$|\w/$", name)
    }
    assert {name for name in named if not is_path(name)} == set()
    assert "brokers/replication/follower_append.py" in named


@pytest.mark.parametrize("package", PACKAGES)
def test_every_name_in_the_docstring_of_a_package_exists(package: str) -> None:
    folder = str(PurePosixPath(package).parent)
    assert [name for name in _QUOTED.findall(docstring(parse(package))) if not exists(name, folder)] == []


def test_a_name_that_does_not_exist_is_found() -> None:
    assert not is_path("brokers/replication/follower_appends.py")
    assert not exists("kafka_tool", "understudy")
    assert not exists("understudy.brokers.replicas", "brokers")
    assert exists("understudy.brokers.world.World", "brokers")
