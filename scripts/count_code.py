#!/usr/bin/env python3
"""Count modules, lines and function lengths of the product in a commit.

scripts/count_code.py [COMMIT …]        default: HEAD; prints a Markdown table
"""

from __future__ import annotations

import ast
import statistics
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

PACKAGES = ("pagewarden", "functions", "dashboard", "gpu_service")
GENERATED = ("pagewarden/database/client.py", "pagewarden/database/rows.py")
ROOT = Path(__file__).parents[1]


class Count(NamedTuple):
    """The figures of one commit; the order is that of the table."""

    modules: int
    lines: int
    lines_per_module: int
    median_lines_per_module: int
    modules_under_40_lines: int
    modules_over_400_lines: int
    median_function: int
    p95_function: int
    entries_of_pagewarden: int
    entries_of_functions: int


def _git(*arguments: str) -> str:
    result = subprocess.run(
        ["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True
    )
    return result.stdout


def _find_functions(source: str) -> list[int]:
    tree = ast.parse(source)
    kinds = ast.FunctionDef | ast.AsyncFunctionDef
    return [(n.end_lineno or 0) - n.lineno + 1 for n in ast.walk(tree) if isinstance(n, kinds)]


def count(commit: str) -> Count:
    """Count the product's Python files in a commit; generated files are left out."""
    names = [
        name
        for name in _git("ls-tree", "-r", "--name-only", commit, *PACKAGES).splitlines()
        if name.endswith(".py") and name not in GENERATED
    ]
    sources = {name: _git("show", f"{commit}:{name}") for name in names}
    sizes = [source.count("\n") for source in sources.values()]
    own = [source.count("\n") for name, source in sources.items() if "__init__" not in name]
    functions = sorted(size for source in sources.values() for size in _find_functions(source))
    return Count(
        modules=len(names),
        lines=sum(sizes),
        lines_per_module=round(statistics.mean(sizes)),
        median_lines_per_module=round(statistics.median(sizes)),
        modules_under_40_lines=sum(size < 40 for size in own),
        modules_over_400_lines=sum(size > 400 for size in sizes),
        median_function=round(statistics.median(functions)),
        p95_function=functions[int(len(functions) * 0.95)],
        entries_of_pagewarden=_list_entries(commit, "pagewarden"),
        entries_of_functions=_list_entries(commit, "functions"),
    )


def _list_entries(commit: str, folder: str) -> int:
    return len(_git("ls-tree", "--name-only", commit, f"{folder}/").splitlines())


def main(commits: list[str]) -> None:
    """Print one column for each commit."""
    counts = [count(commit) for commit in commits]
    rows = [["", *commits], ["---"] * (len(commits) + 1)]
    rows += [
        [field.replace("_", " "), *(f"{getattr(c, field):,}" for c in counts)]
        for field in Count._fields
    ]
    for row in rows:
        sys.stdout.write(f"| {' | '.join(row)} |\n")


if __name__ == "__main__":
    main(sys.argv[1:] or ["HEAD"])
