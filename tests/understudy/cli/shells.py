"""Asks bash, zsh and fish what they complete, as they do at a press of Tab; the shells of this machine, if it has them.

`REQUIRE_SHELLS=1` turns the skip for a shell that is missing into a failure.
"""

from __future__ import annotations

import os
import pty
import select
import shutil
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

_TIMEOUT_S = 60
_PROMPT = "type> "
_SHOWN = "the line is now "

_BASH = """
source "$1"; cd "$2"; shift 2
function=$(complete -p understudy | sed 's/.*-F \\([^ ]*\\).*/\\1/')
for line in "$@"; do
  read -r -a COMP_WORDS <<< "$line"; [[ $line = *" " ]] && COMP_WORDS+=("")
  COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
  "$function"; echo "${COMPREPLY[@]}"
done
"""
"""Calls the function that `complete` has been given, as bash does at a press of Tab."""

_FISH = "source $argv[1]; for line in $argv[2..-1]; echo (complete -C $line | string split -f1 \\t); end"

_ZSHRC = f"""
PROMPT='{_PROMPT}'; unset zle_bracketed_paste; cd $SCRIPTS
fpath=($PWD $fpath); autoload -Uz compinit; compinit -u -D
complete-and-show() {{ zle expand-or-complete; print -r -- "
{_SHOWN}<$BUFFER>"; BUFFER=; zle reset-prompt }}
zle -N complete-and-show; bindkey '^T' complete-and-show; cd $FOLDER
"""


def need(shell: str) -> None:
    """Skip the test if the machine lacks the shell; fail with REQUIRE_SHELLS=1."""
    if shutil.which(shell) is None:
        reason = f"{shell} is not installed; Debian's package is {shell}"
        if os.environ.get("REQUIRE_SHELLS") == "1":
            pytest.fail(reason)
        pytest.skip(reason)


def bash(script: Path, folder: Path, lines: Sequence[str]) -> list[list[str]]:
    """Return the words that bash proposes, in `folder`, for the last word of each line."""
    return _words(["bash", "--norc", "-c", _BASH, "bash", str(script), str(folder), *lines], folder)


def fish(script: Path, folder: Path, lines: Sequence[str]) -> list[list[str]]:
    """Return the words that fish proposes, in `folder`, for the last word of each line."""
    return _words(["fish", "--no-config", "-c", _FISH, str(script), *lines], folder)


def zsh(script: Path, folder: Path, lines: Sequence[str]) -> list[list[str]]:
    """Return the last word of each line after zsh has completed it, in `folder`; zsh shows several in no such form."""
    home = script.parent
    (home / "_understudy").write_bytes(script.read_bytes())
    (home / ".zshrc").write_text(_ZSHRC)
    leader, follower = pty.openpty()
    variables = {"ZDOTDIR": str(home), "HOME": str(home), "TERM": "dumb", "SCRIPTS": str(home), "FOLDER": str(folder)}
    completed = []
    with subprocess.Popen(
        ["zsh", "-i"], cwd=home, env=os.environ | variables, stdin=follower, stdout=follower, stderr=follower
    ) as shell:
        os.close(follower)
        screen = _Screen(leader)
        try:
            for line in lines:
                screen.read_until(_PROMPT)
                os.write(leader, line.encode() + b"\x14")
                screen.read_until(f"{_SHOWN}<")
                completed.append(screen.read_until(">\r\n").split()[-1:])
        finally:
            shell.kill()
            os.close(leader)
    return completed


class _Screen:
    """What a shell prints on a terminal, of which nothing is lost between two reads."""

    def __init__(self, terminal: int) -> None:
        self._terminal = terminal
        self._text = ""

    def read_until(self, end: str) -> str:
        """Return the text that is printed before `end`, since the last call."""
        deadline = time.monotonic() + _TIMEOUT_S
        while end not in self._text:
            left = max(0.0, deadline - time.monotonic())
            assert select.select([self._terminal], [], [], left)[0], f"{end!r} is not in {self._text!r}"
            self._text += os.read(self._terminal, 4096).decode(errors="replace")
        found, _, self._text = self._text.partition(end)
        return found


COMPLETE: dict[str, Callable[[Path, Path, Sequence[str]], list[list[str]]]] = {"bash": bash, "zsh": zsh, "fish": fish}


def _words(command: list[str], folder: Path) -> list[list[str]]:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=_TIMEOUT_S, check=True)
    assert done.stderr == ""
    return [sorted(line.split()) for line in done.stdout.splitlines()]
