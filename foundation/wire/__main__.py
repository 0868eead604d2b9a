"""Prints the reader and writer of a message: `python -m understudy.foundation.wire LeaderAndIsrRequest 7`."""

from __future__ import annotations

import sys

from understudy.foundation.wire.codegen import reader_source, writer_source
from understudy.foundation.wire.registry import APIS


def main(arguments: list[str]) -> int:
    apis = {message.__name__: (api, message) for api in APIS for message in (api.request, api.response)}
    name, version = [*arguments, "", ""][:2]
    if name not in apis or not version.isdecimal() or not apis[name][0].supports(int(version)):
        known = "\n".join(f"  {name} {api.min_version}-{api.max_version}" for name, (api, _) in apis.items())
        print(f"usage: python -m understudy.foundation.wire MESSAGE VERSION, with one of\n{known}", file=sys.stderr)
        return 2
    api, message = apis[name]
    flexible = api.is_flexible(int(version))
    print(reader_source(message, int(version), flexible=flexible, to_the_end=api.is_read_to_the_end(message)).text())
    print(writer_source(message, int(version), flexible=flexible).text())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
