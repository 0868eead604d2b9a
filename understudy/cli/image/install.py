"""`python -m understudy.cli.image.install`: put the scripts and folders of the Kafka images into a file system.

Everything is writable for every user: compose files set `user:`, and Testcontainers changes scripts before they run.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from understudy.cli.image import names

FOLDERS: Final = (
    "/var/lib/kafka",
    "/var/lib/kafka/data",
    "/var/lib/zookeeper",
    "/var/lib/zookeeper/data",
    "/var/lib/zookeeper/log",
    "/bitnami",
    "/bitnami/kafka",
    "/bitnami/kafka/data",
    "/bitnami/zookeeper",
    "/bitnami/zookeeper/data",
    "/kafka",
    "/kafka/data",
    "/kafka/logs",
    "/zookeeper",
    "/zookeeper/data",
    "/zookeeper/txns",
    "/zookeeper/logs",
    "/data",
    "/datalog",
    "/etc/kafka/secrets",
    "/mnt/shared/config",
    "/opt/kafka/config",
    "/opt/bitnami/kafka/config",
    "/run/understudy",
)
"""Folders of the images that compose files mount as volumes, or write to."""

_SCRIPT: Final = """#!{python} -I
import sys
from understudy.cli.image.scripts import main
sys.exit(main())
"""

_READABLE: Final = 0o755
_WRITABLE: Final = 0o777


def main(arguments: Sequence[str] | None = None) -> int:
    """Install everything below the folder that the only argument names; by default below `/`."""
    words = sys.argv[1:] if arguments is None else arguments
    root = Path(words[0] if words else "/")
    for folder in FOLDERS:
        _folder(root, folder)
    script = root / names.PATH_FOLDER[1:] / "understudy-image"
    script.parent.mkdir(parents=True, exist_ok=True)
    script.write_text(_SCRIPT.format(python=sys.executable))
    script.chmod(_READABLE)
    scripts = [name + suffix for name in names.SCRIPTS for suffix in ("", ".sh")]
    _link(root, names.PATH_FOLDER, [*scripts, *names.PROGRAMS])
    for folder in names.TOOL_FOLDERS:
        _link(root, folder, scripts)
    for path, body in names.SHELL_FILES.items():
        file = root / path[1:]
        if file.parent != root:
            _folder(root, str(Path(path).parent))
        file.write_text(f"#!/bin/sh\n{body}\n" if body else "#!/bin/sh\n")
        file.chmod(_WRITABLE)
    return 0


def _folder(root: Path, folder: str) -> None:
    path = root / folder[1:]
    path.mkdir(parents=True, exist_ok=True)
    path.chmod(_WRITABLE)


def _link(root: Path, folder: str, scripts: Sequence[str]) -> None:
    path = root / folder[1:]
    path.mkdir(parents=True, exist_ok=True)
    for name in scripts:
        link = path / name
        link.unlink(missing_ok=True)
        link.symlink_to(f"{names.PATH_FOLDER}/understudy-image")


if __name__ == "__main__":
    sys.exit(main())
