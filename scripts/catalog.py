#!/usr/bin/env python3
"""Print the contents of a Pagewarden database, one line for each object and row.

    .venv/bin/python scripts/catalog.py URL          print the lines
    .venv/bin/python scripts/catalog.py URL OTHER    print the difference of two databases

pagewarden.local.catalog describes the lines.
"""

from __future__ import annotations

import argparse
import asyncio
import difflib
import sys

import psycopg

from pagewarden.local import catalog


async def _list_lines(url: str, *, comments: bool) -> list[str]:
    async with await psycopg.AsyncConnection.connect(url) as conn:
        return await catalog.list_lines(conn, comments=comments)


def main() -> int:
    """Print the catalog of a database, or the difference of two."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("other", nargs="?")
    parser.add_argument("--no-comments", action="store_true", help="leave out comments on objects")
    options = parser.parse_args()
    urls = filter(None, (options.url, options.other))
    catalogs = [asyncio.run(_list_lines(url, comments=not options.no_comments)) for url in urls]
    if options.other is None:
        sys.stdout.write("\n".join(catalogs[0]) + "\n")
        return 0
    changes = list(difflib.unified_diff(*catalogs, options.url, options.other, n=0, lineterm=""))
    sys.stdout.write("\n".join(changes) + "\n" if changes else "the catalogs are equal\n")
    return bool(changes)


if __name__ == "__main__":
    sys.exit(main())
