#!/usr/bin/env python3
"""Mutation testing: change one thing in the code at a time, and see which test fails.

tests/mutants.json lists the changes. Run them before and after a change of the tests; the share of
mutants that are killed must not fall.

    scripts/mutants.py run --results before.json                each mutant, then the rest together
    scripts/mutants.py group --results before.json -- -n 3      survivors with the whole suite
    scripts/mutants.py table --results before.json after.json   as Markdown
    scripts/mutants.py check                                    list mutants that no longer apply
    scripts/mutants.py make-list                                draw the list again (same seed)
"""

from __future__ import annotations

import argparse
import ast
import collections
import contextlib
import hashlib
import itertools
import json
import os
import random
import re
import selectors
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

ROOT = Path(__file__).parents[1]
LIST = Path("tests", "mutants.json")
SEED = 20261118
KINDS = ("condition", "comparison", "lock", "column", "constant")

# The number of mutants of each file; the core of the queue has most of them.
SQL = {
    "queue": 12, "queue_tables": 3, "outages": 2, "pages": 1, "cases": 1, "uploads": 4,
    "document_actions": 6, "case_actions": 1, "corrections": 1, "registry": 2, "functions": 1,
    "checks": 3, "volume_queue": 2, "volume_orchestrator": 1, "alerts": 1, "retention": 1,
}  # fmt: skip
WORKER = {
    "pagewarden/leases.py": 3, "pagewarden/documents/attempt.py": 2,
    "pagewarden/documents/worker.py": 2, "pagewarden/documents/lanes.py": 1,
    "pagewarden/documents/reader.py": 1,
    "pagewarden/database/retry.py": 2, "pagewarden/volumes/worker.py": 2,
    "pagewarden/volumes/stage_attempt.py": 2, "pagewarden/volumes/orchestrator.py": 3,
}  # fmt: skip

# The tests of each part, and those to run first; missing ones are skipped.
PARTS = {
    "sql": ("tests/database",),
    "worker": (
        "tests/test_leases.py",
        "tests/documents",
        "tests/volumes",
        "tests/chaos",
        "tests/database/test_retry.py",
    ),
}  # fmt: skip
_CORE = ("test_fencing", "test_races")
_LAST = ("test_state_machine",)  # slow, but finds unexpected failures
FIRST = {
    "_volume_": ("test_volumes", "test_volume_state_machine", "test_volume_statements"),
    "_queue.sql": (*_CORE, "test_fairness", "test_operation", "test_search", *_LAST),
    "_queue_tables": (*_CORE, "test_fairness", "test_events", *_LAST),
    "_outages": (*_CORE, "test_operation", "test_health", *_LAST),
    "_pages": (*_CORE, "test_search", "test_corrections", *_LAST),
    "_cases": ("test_rights", "test_people", *_LAST),
    "_uploads": (*_CORE, "test_bad_input", "test_attention", *_LAST),
    "_document_actions": (*_CORE, "test_audit", "test_rights", "test_operation", *_LAST),
    "_case_actions": (*_CORE, "test_audit", "test_rights", *_LAST),
    "_corrections": ("test_corrections", "test_search"),
    "_registry": ("test_extraction_queue", "test_registry"),
    "_functions": ("test_events", "test_operation"),
    "_checks": ("test_check_jobs", "test_check_job_machine", *_CORE),
    "_alerts": ("test_alerts",),
    "_retention": ("test_housekeeping",),
    "pagewarden/documents": ("documents",),
    "pagewarden/database": ("test_retry", "test_outages", "documents/test_worker"),
    "pagewarden/volumes": ("volumes/test_worker", "volumes/test_sqs", "volumes/test_chaos"),
}

# These compare texts and checksums, so they would kill every mutant.
LEFT_OUT = (
    "tests/database/test_migrations.py",
    "tests/docs/test_reference.py",
    "tests/docs/test_docs.py",
    "tests/database/test_supabase_cli.py",
)
HANG_SECONDS = 90
_HANGS = " (hangs)"


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change: in this function, `old` (unique in it) becomes `new`."""

    id: str
    part: str
    file: str
    function: str
    kind: str
    old: str
    new: str


class Site(NamedTuple):
    """A possible change: these characters of a function become `new`."""

    kind: str
    start: int
    end: int
    new: str


class Function(NamedTuple):
    """The text of a function and its position."""

    file: Path
    name: str
    start: int
    text: str


# Functions ---------------------------------------------------------------------------------


_SQL_FUNCTION = re.compile(
    r"^create (?:or replace )?function ([\w.]+)\(.*?^\$(\w*)\$;$", re.MULTILINE | re.DOTALL
)


def find_functions(tree: Path, part: str) -> list[Function]:
    """Find all functions; for SQL functions, the last definition."""
    if part == "sql":
        found = {}
        for path in sorted((tree / "supabase" / "migrations").glob("*.sql")):
            text = path.read_text("utf-8")
            for match in _SQL_FUNCTION.finditer(text):
                found[match[1]] = Function(path, match[1], match.start(), match[0])
        return list(found.values())
    paths = sorted((tree / "pagewarden").rglob("*.py"))
    return [function for path in paths for function in _find_python_functions(path)]


def _find_python_functions(path: Path) -> Iterator[Function]:
    text = path.read_text("utf-8")
    starts = [0, *itertools.accumulate(len(line) for line in text.splitlines(keepends=True))]

    def walk(node: ast.AST, prefix: str) -> Iterator[Function]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                name = f"{prefix}{child.name}"
                if not isinstance(child, ast.ClassDef):
                    begin, end = starts[child.lineno - 1], starts[child.end_lineno or 0]
                    yield Function(path, name, begin, text[begin:end])
                yield from walk(child, f"{name}.")

    yield from walk(ast.parse(text), "")


# Possible changes --------------------------------------------------------------------------


def _blank(pattern: str, text: str) -> str:
    """Replace matches with as many blanks."""
    return re.sub(pattern, lambda m: re.sub(r"\S", " ", m[0]), text, flags=re.DOTALL)


_FLIPS = {
    "<": ("<=", ">"), "<=": ("<", ">"), ">": (">=", "<"), ">=": (">", "<"), "=": ("<>",),
    "<>": ("=",), "is null": ("is not null",), "is not null": ("is null",),
    "is distinct from": ("is not distinct from",), "is not distinct from": ("is distinct from",),
}  # fmt: skip
_COMPARISON = re.compile(
    r"(?<= )(<=|>=|<>|<|>|=|is not null|is null|is not distinct from|is distinct from)(?=[ ;)\n])"
)
_DEPTHS = {"(": 1, ")": -1}


# Group 1 is removed or replaced.
_DROPS = (
    ("condition", r"^ +((?:and|or) .+?)(?: then| loop|;)?$", ""),
    ("condition", r"where .+( and .+?)(?: then| loop|;|\))?$", ""),
    ("condition", r"^ +(?:els)?if (.+) then$", "false"),
    ("condition", r"continue when (.+);", "false"),
    ("lock", r"(\s+for (?:no key )?(?:update|share)(?: of \w+)?(?: skip locked)?)", ""),
    ("lock", r"for update(?: of \w+)?( skip locked)", ""),
    ("lock", r"^( +perform pg_advisory_xact_lock.*;\n)", ""),
    ("column", r"^ +(\w+\.\w+ := [^;]+;)", "null;"),
)


def find_sql_sites(text: str) -> Iterator[Site]:
    """Find possible changes in an SQL function."""
    begin = text.index("\nas $")
    code = " " * begin + _blank(r"--[^\n]*", text[begin:])
    code = _blank(r"\braise (?:exception|log|notice|warning) .*?;", code)
    bare = re.sub(r"'[^']*'", lambda m: "'" + "_" * (len(m[0]) - 2) + "'", code)
    for kind, pattern, new in _DROPS:
        for match in re.finditer(pattern, bare, re.MULTILINE):
            if kind != "condition" or new or _is_complete(match[1]):
                yield Site(kind, *match.span(1), new)
    for match in _COMPARISON.finditer(bare):
        line = bare[bare.rfind("\n", 0, match.start()) + 1 : match.end()]
        if match[1] != "=" or re.search(r"\b(where|and|or|on|if|when)\b", line):
            for new in _FLIPS[match[1]]:
                yield Site("comparison", *match.span(1), new)
    yield from _find_columns(bare)
    yield from _find_sql_constants(code, bare)


def _find_sql_constants(code: str, bare: str) -> Iterator[Site]:
    for match in re.finditer(r"(?<![\w.'\-$])\d+(?![\w.'])", bare):
        if not bare[: match.start()].endswith(("limit ", "select ", "perform ")):
            yield Site("constant", *match.span(), str(int(match[0]) + 1))
    for match in re.finditer(r"(?<=interval ')(\d+) \w+'", code):
        yield Site("constant", *match.span(1), str(int(match[1]) * 10))
    for match in re.finditer(r"(?<!is )(?<!not )(?<!default )\b(true|false)\b", bare):
        yield Site("constant", *match.span(), "false" if match[1] == "true" else "true")


def _find_columns(bare: str) -> Iterator[Site]:
    """Find the columns that an update sets, if it sets several."""
    for match in re.finditer(r"(?<=\bset )(?!local)\w+ = ", bare):
        parts, at, depth = [match.start()], match.start(), 0
        for at in range(match.start(), len(bare)):
            depth += _DEPTHS.get(bare[at], 0)
            if depth < 0 or (not depth and re.match(r";|\s(where|from|returning)\b", bare[at:])):
                break
            if bare[at] == "," and not depth:
                parts.append(at + 1)
        parts.append(at + 1)
        for begin, end in itertools.pairwise(parts) if len(parts) > 2 else ():
            is_last = end == at + 1
            yield Site("column", begin - is_last, end - is_last, "")


def _is_complete(condition: str) -> bool:
    """Return whether a condition begins and ends on its line."""
    depths = list(itertools.accumulate(_DEPTHS.get(c, 0) for c in condition))
    return min(depths) >= 0 == depths[-1] and not {"case", "between"} & set(condition.split())


_PYTHON_FLIPS: dict[type[ast.cmpop], tuple[str, ...]] = {
    ast.Lt: ("<=", ">"), ast.LtE: ("<", ">"), ast.Gt: (">=", "<"), ast.GtE: (">", "<"),
    ast.Eq: ("!=",), ast.NotEq: ("==",), ast.Is: ("is not",), ast.IsNot: ("is",),
    ast.In: ("not in",), ast.NotIn: ("in",),
}  # fmt: skip


def find_python_sites(text: str) -> Iterator[Site]:
    """Find possible changes in a Python function; the text begins at its def."""
    shift = len(text) - len(text.lstrip())
    lines = text.splitlines(keepends=True)
    whole = "".join(line[shift:] if line.strip() else line for line in lines)
    starts = [0, *itertools.accumulate(len(line) for line in lines)]

    def span(node: ast.expr | ast.stmt) -> tuple[int, int]:
        end_line, end_column = node.end_lineno or 0, node.end_col_offset or 0
        begin = starts[node.lineno - 1] + node.col_offset + shift
        return begin, starts[end_line - 1] + end_column + shift

    for node in ast.walk(ast.parse(whole)):
        for kind, begin, end, new in _find_node_sites(node):
            first, last = span(begin), span(end)
            if begin is end:
                yield Site(kind, *first, new)
            elif new:  # between the two
                yield Site(kind, first[1], last[0], new)
            else:  # the second with its operator
                yield Site(kind, first[1], last[1], new)


_Node = ast.expr | ast.stmt


def _find_node_sites(node: ast.AST) -> Iterator[tuple[str, _Node, _Node, str]]:
    match node:
        case ast.If(test=test):
            yield "condition", test, test, "False"
        case ast.BoolOp(values=[*_, left, right]):
            yield "condition", left, right, ""
        case ast.ExceptHandler(type=ast.Tuple(elts=[*_, left, right])):
            yield "condition", left, right, ""
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            for new in _PYTHON_FLIPS[type(op)]:
                yield "comparison", left, right, f" {new} "
        case ast.AugAssign() | ast.Expr(value=ast.Await() | ast.Call()):
            if not re.search(r"\b(log|metrics|tracing|structlog)\.", ast.unparse(node)):
                yield "column", node, node, "pass"
        case ast.Constant(value=bool() as value):
            yield "constant", node, node, str(not value)
        case ast.Constant(value=int() | float() as value):
            yield "constant", node, node, repr(value + 1)


# The list ----------------------------------------------------------------------------------


def _make_pattern(snippet: str) -> re.Pattern[str]:
    """Return a pattern that matches a snippet with any line breaks."""
    return re.compile(r"\s+".join(map(re.escape, snippet.split())))


def _make_mutant(function: Function, part: str, site: Site, tree: Path) -> Mutant | None:
    """Describe a change by as many whole lines as needed to make it unique in its function."""
    text = function.text
    begin = text.rfind("\n", 0, site.start + 1) + 1
    end = text.find("\n", max(site.end - 1, site.start))
    for turn in range(8):
        old = text[begin:end]
        if len(_make_pattern(old).findall(text)) == 1:
            break
        if turn % 2:
            end = text.find("\n", end + 1)
        else:
            begin = text.rfind("\n", 0, begin - 1) + 1
    else:
        return None
    new = text[begin : site.start] + site.new + text[site.end : end]
    name = f"{function.name}{site.kind}{old}{new}"
    return Mutant(
        hashlib.sha256(name.encode()).hexdigest()[:6], part,
        str(function.file.relative_to(tree)), function.name, site.kind, old.strip("\n"),
        new.strip("\n"),
    )  # fmt: skip


def draw_mutants(tree: Path, seed: int, refused: dict[str, str]) -> list[Mutant]:
    """Draw mutants of every file: kinds in turn, and no function twice before all had one."""
    chosen = []
    quotas = [("sql", area, count) for area, count in SQL.items()]
    quotas += [("worker", area, count) for area, count in WORKER.items()]
    known = {part: find_functions(tree, part) for part in PARTS}
    for number, (part, area, count) in enumerate(quotas):
        dice = random.Random(f"{seed} {area}")  # noqa: S311  # no secret
        ending = f"_{area}.sql" if part == "sql" else area
        by_kind: dict[str, list[Mutant]] = {kind: [] for kind in KINDS}
        for function in known[part]:
            if str(function.file).endswith(ending) and "require_" not in function.name:
                find = find_sql_sites if part == "sql" else find_python_sites
                for site in find(function.text):
                    mutant = _make_mutant(function, part, site, tree)
                    if mutant and mutant.id not in refused:
                        by_kind[site.kind].append(mutant)
        for mutants in by_kind.values():
            mutants.sort(key=lambda mutant: mutant.id)
            dice.shuffle(mutants)
        used: collections.Counter[str] = collections.Counter()
        kinds = itertools.cycle(KINDS[number % len(KINDS) :] + KINDS[: number % len(KINDS)])
        picked: list[Mutant] = []
        while len(picked) < count and any(by_kind.values()):
            mutants = by_kind[next(kinds)]
            mutants.sort(key=lambda mutant: used[mutant.function])
            if mutants:
                picked.append(mutants.pop(0))
                used[picked[-1].function] += 1
        chosen += picked
    return chosen


def apply(mutant: Mutant, tree: Path) -> Path | None:
    """Change and return the file; None if the text is missing or no longer unique."""
    known = find_functions(tree, mutant.part)
    named = [function for function in known if function.name == mutant.function]
    pattern = _make_pattern(mutant.old)
    for candidates in (
        [f for f in named if f.file == tree / mutant.file],
        named,
        known,
    ):
        hits = {
            (f.file, f.start + m.start(), f.start + m.end())
            for f in candidates
            for m in pattern.finditer(f.text)
        }
        if len(hits) == 1:
            ((path, begin, end),) = hits
            text = path.read_text("utf-8")
            _write(path, text[:begin] + mutant.new.strip() + text[end:])
            return path
    return None


def _write(path: Path, text: str) -> None:
    path.write_text(text, "utf-8")
    for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
        compiled.unlink()  # it could be of the same second and size


# Running -----------------------------------------------------------------------------------


class TestRun(NamedTuple):
    """The result of a test run: the failed tests, and whether all tests were run."""

    failed: list[str]
    is_complete: bool
    seconds: float


class Workspace:
    """A copy of a tree, in which mutants are applied."""

    def __init__(self, tree: Path, copy: Path) -> None:
        self.tree = copy
        skip = shutil.ignore_patterns(
            ".git", ".venv", "node_modules", "__pycache__", ".*_cache", ".hypothesis"
        )
        shutil.copytree(tree, copy, ignore=skip, symlinks=True)
        for name in (".venv", "node_modules"):
            (copy / name).symlink_to((tree / name).resolve())

    @contextlib.contextmanager
    def apply_mutants(self, mutants: Iterable[Mutant]) -> Iterator[list[Mutant]]:
        """Apply mutants within the block; yield the applied ones."""
        originals: dict[Path, str] = {}
        applied = []
        try:
            for mutant in mutants:
                for path in {f.file for f in find_functions(self.tree, mutant.part)} - set(
                    originals
                ):
                    originals[path] = path.read_text("utf-8")
                if apply(mutant, self.tree):
                    applied.append(mutant)
            yield applied
        finally:
            for path, text in originals.items():
                if path.read_text("utf-8") != text:
                    _write(path, text)

    def files(self, part: str) -> list[str]:
        """List the test files of a part."""
        places = [self.tree / place for place in PARTS[part] if (self.tree / place).exists()]
        found = [
            path
            for place in places
            for path in (sorted(place.rglob("test_*.py")) if place.is_dir() else [place])
        ]
        return [str(path.relative_to(self.tree)) for path in found]

    def test(
        self, tests: Sequence[str], *options: str, max_seconds: float | None = None
    ) -> TestRun:
        """Run tests; a test that hangs is stopped and counts as failed."""
        began = time.monotonic()
        left_out = [f"--deselect={name}" for name in LEFT_OUT]
        if not any(option.startswith("-n") for option in options):
            options = ("-n0", *options)
        with tempfile.TemporaryDirectory(prefix="mutants-", ignore_cleanup_errors=True) as folder:
            Path(folder).chmod(0o755)  # the server may run as another account
            process = subprocess.Popen(
                [
                    self.tree / ".venv/bin/python", "-m", "pytest", "-v", "-rfE", "--tb=no",
                    "-p", "no:randomly", "-p", "no:cacheprovider", "--hypothesis-seed=0",
                    *left_out, *options, *tests,
                ],
                cwd=self.tree, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL, start_new_session=True,
                env=os.environ | {"PYTHONPATH": str(self.tree), "TMPDIR": folder, "COLUMNS": "500"},
            )  # fmt: skip
            try:
                output, end = _watch(process, max_seconds)
            finally:
                _stop(process, Path(folder))
        failed = _parse_failed_tests(output)
        if end == "hang":
            failed.append(_parse_last_test(output) + _HANGS)
        if process.returncode not in (0, 1) and not failed and end is None:
            raise SystemExit(f"pytest ended with {process.returncode}:\n{output[-3000:]}")
        return TestRun(failed, end is None, time.monotonic() - began)


def _watch(process: subprocess.Popen[bytes], max_seconds: float | None) -> tuple[str, str | None]:
    """Read output until the process ends, is silent for too long, or takes too long."""
    assert process.stdout is not None  # noqa: S101
    output, began, heard = b"", time.monotonic(), time.monotonic()
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while True:
            if selector.select(1):
                if not (chunk := os.read(process.stdout.fileno(), 65536)):
                    return output.decode(errors="replace"), None
                output, heard = output + chunk, time.monotonic()
            if time.monotonic() - heard > HANG_SECONDS:
                return output.decode(errors="replace"), "hang"
            if max_seconds and time.monotonic() - began > max_seconds:
                return output.decode(errors="replace"), "time"


def _stop(process: subprocess.Popen[bytes], folder: Path) -> None:
    """Interrupt the tests, so that they stop their servers; kill what remains."""
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.communicate(timeout=30)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for file in folder.rglob("postmaster.pid"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            os.kill(int(file.read_text().splitlines()[0]), signal.SIGQUIT)


_TEST = r"(tests/[\w./]+\.py(?:::\w+)*(?:\[.*?\])?)"


def _parse_failed_tests(output: str) -> list[str]:
    found = re.findall(rf"^(?:FAILED|ERROR|SUBFAIL\w*).*?{_TEST}(?: - |$)", output, re.MULTILINE)
    found += re.findall(rf"^{_TEST}(?: \S+)? (?:FAILED|ERROR|SUBFAIL\w*)\b", output, re.MULTILINE)
    return list(dict.fromkeys(found))


def _parse_last_test(output: str) -> str:
    tests: list[str] = re.findall(_TEST, output)
    return tests[-1] if tests else "?"


# Commands ----------------------------------------------------------------------------------


def _print(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def _load(tree: Path) -> tuple[int, list[Mutant], dict[str, str]]:
    if not (tree / LIST).exists():
        return SEED, [], {}
    found = json.loads((tree / LIST).read_text("utf-8"))
    return found["seed"], [Mutant(**row) for row in found["mutants"]], found["left_out"]


class Results:
    """The outcome of each mutant, in a file that is written after each one."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rows: dict[str, dict[str, Any]] = {}
        if path.exists():
            self.rows = json.loads(path.read_text("utf-8"))

    def record(self, mutant: Mutant, outcome: str, by: str = "", seconds: float = 0) -> None:
        """Record the outcome of a mutant."""
        spent = self.rows.get(mutant.id, {}).get("seconds", 0) + round(seconds, 1)
        self.rows[mutant.id] = {"outcome": outcome, "by": by, "seconds": spent}
        self.path.write_text(json.dumps(self.rows, indent=1) + "\n", "utf-8")
        _print(f"  {mutant.id} {mutant.function}: {outcome} {by} ({seconds:.0f} s)")

    def with_outcome(self, outcome: str, mutants: Iterable[Mutant]) -> list[Mutant]:
        """Return the mutants with this outcome."""
        return [m for m in mutants if self.rows.get(m.id, {}).get("outcome") == outcome]


def _choose_tests(mutant: Mutant, files: list[str], hints: dict[str, dict[str, Any]]) -> list[str]:
    """Choose the most likely tests, beginning with the one that killed the mutant before."""
    names = next((names for area, names in FIRST.items() if area in mutant.file), _CORE)
    killer = _get_test_file(hints.get(mutant.id, {}).get("by", ""))
    first = [killer] if killer in files else []
    return list(dict.fromkeys(first + [f for name in names for f in files if name in f]))


@dataclass(frozen=True, slots=True)
class Session:
    """Mutants, a tree to apply them in, and their results."""

    workspace: Workspace
    results: Results
    mutants: list[Mutant]

    def run_each(self, cap: float, hints: dict[str, dict[str, Any]]) -> None:
        """Run the most likely tests on each mutant."""
        todo = [m for m in self.mutants if m.id not in self.results.rows]
        for number, mutant in enumerate(todo, 1):
            _print(f"[{number}/{len(todo)}] {mutant.part} {mutant.kind} in {mutant.function}")
            with self.workspace.apply_mutants([mutant]) as applied:
                if not applied:
                    self.results.record(mutant, "not applicable")
                    continue
                tests = _choose_tests(mutant, self.workspace.files(mutant.part), hints)
                ran = self.workspace.test(tests, "-x", max_seconds=cap)
            by = ran.failed[0] if ran.failed else ""
            self.results.record(mutant, "killed" if by else "open", by, ran.seconds)

    def confirm_kills(self) -> None:
        """Run the killing tests without mutants; a test that fails then has killed nothing."""
        killers = {
            m.id: _get_test_name(self.results.rows[m.id]["by"])
            for m in self._with_outcome("killed")
        }
        failed = self.workspace.test(sorted(set(killers.values()))).failed if killers else []
        for mutant in self._with_outcome("killed"):
            if killers[mutant.id] in failed:
                self.results.record(mutant, "open", "fails without mutants too")

    def run_grouped(self, part: str | None, before: str, after: str, *options: str) -> None:
        """Run the tests of a part, or all, on all survivors, then the failed ones on each."""
        tests = self.workspace.files(part) if part else ["tests"]
        while survivors := [m for m in self._with_outcome(before) if part in (m.part, None)]:
            with self.workspace.apply_mutants(survivors) as applied:
                _print(f"{len(applied)} survivors together: {' '.join(m.id for m in applied)}")
                ran = self.workspace.test(tests, *options)
            suspects = list(map(_get_test_name, ran.failed))
            broken = self.workspace.test(suspects).failed if suspects else []
            suspects = [test for test in suspects if test not in broken]
            _print(f"  {ran.seconds:.0f} s; failed: {' '.join(suspects) or 'nothing'}")
            killed = [
                mutant for mutant in applied if suspects and self._is_killed(mutant, suspects)
            ]
            # If none was killed alone, a test may depend on those before it in its file.
            known = {_get_test_file(self.results.rows[mutant.id]["by"]) for mutant in killed}
            files = sorted(set(map(_get_test_file, suspects)) - known)
            killed += [
                m for m in applied if files and m not in killed and self._is_killed(m, files)
            ]
            if ran.is_complete or not killed:
                for mutant in set(applied) - set(killed):
                    self.results.record(mutant, after)

    def _is_killed(self, mutant: Mutant, tests: list[str]) -> bool:
        with self.workspace.apply_mutants([mutant]):
            ran = self.workspace.test(tests, "-x")
        if ran.failed:
            self.results.record(mutant, "killed", ran.failed[0], ran.seconds)
        return bool(ran.failed)

    def _with_outcome(self, outcome: str) -> list[Mutant]:
        return self.results.with_outcome(outcome, self.mutants)


def _get_test_name(test: str) -> str:
    return test.removesuffix(_HANGS)


def _get_test_file(test: str) -> str:
    return test.split("::", maxsplit=1)[0]


def print_table(options: argparse.Namespace, mutants: list[Mutant]) -> None:
    """Print the results as Markdown, side by side."""
    every = [Results(path) for path in options.results]
    names = " | ".join(path.stem for path in options.results)
    _print(f"| mutant | place | kind | {names} |\n|---|---|---|{'---|' * len(every)}")
    for mutant in mutants:
        ends = [results.rows.get(mutant.id, {}) for results in every]
        cells = [
            f"`{row['by']}`" if row.get("outcome") == "killed" else f"**{row.get('outcome', '')}**"
            for row in ends
        ]
        place = f"`{mutant.function}` ({Path(mutant.file).name})"
        _print(f"| {mutant.id} | {place} | {mutant.kind} | {' | '.join(cells)} |")
    for results, path in zip(every, options.results, strict=True):
        killed = len(results.with_outcome("killed", mutants))
        ran = len(results.rows) - len(results.with_outcome("not applicable", mutants))
        _print(f"\n{path.stem}: {killed} of {ran} killed ({killed / max(ran, 1):.0%})")


def check(workspace: Workspace, mutants: list[Mutant]) -> int:
    """List the mutants that cannot be applied in this tree."""
    missing = 0
    for mutant in mutants:
        with workspace.apply_mutants([mutant]) as applied:
            missing += not applied
            if not applied:
                _print(f"not applicable: {mutant.id} {mutant.function}: {mutant.old.strip()}")
    _print(f"{len(mutants) - missing} of {len(mutants)} can be applied")
    return int(missing > 0)


def _parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument("--tree", type=Path, default=ROOT, help="tree to test (default: this one)")
    shared.add_argument("--only", nargs="+", default=[], metavar="ID", help="only these mutants")
    running = argparse.ArgumentParser(add_help=False)
    running.add_argument(
        "--results",
        type=Path,
        required=True,
        help="file of results; mutants in it are not run again",
    )
    command = commands.add_parser("run", parents=[shared, running], help="run every mutant")
    command.add_argument(
        "--cap", type=float, default=90, help="maximum seconds for a single mutant"
    )
    command.add_argument(
        "--hints", type=Path, help="results of another run, whose killing tests run first"
    )
    command = commands.add_parser(
        "group", parents=[shared, running], help="run the whole suite on all survivors together"
    )
    command.add_argument("pytest_options", nargs="*", help="options of pytest, after --")
    commands.add_parser("check", parents=[shared], help=check.__doc__)
    command = commands.add_parser("table", parents=[shared], help=print_table.__doc__)
    command.add_argument("--results", type=Path, nargs="+", required=True)
    command = commands.add_parser("make-list", parents=[shared], help=draw_mutants.__doc__)
    command.add_argument("--seed", type=int)
    return parser.parse_args()


def main() -> int:
    """Run the command."""
    for number in (signal.SIGINT, signal.SIGTERM):  # a background job ignores the first
        signal.signal(number, signal.default_int_handler)
    options = _parse_options()
    seed, mutants, refused = _load(ROOT)
    mutants = [m for m in mutants if not options.only or m.id in options.only]
    if options.command == "make-list":
        seed = options.seed or seed
        mutants = draw_mutants(ROOT, seed, refused)
        rows = {"seed": seed, "left_out": refused, "mutants": [asdict(m) for m in mutants]}
        (ROOT / LIST).write_text(json.dumps(rows, indent=1, ensure_ascii=False) + "\n", "utf-8")
        return 0
    if options.command == "table":
        print_table(options, mutants)
        return 0
    with tempfile.TemporaryDirectory(prefix="mutants-tree-") as folder:
        Path(folder).chmod(0o755)
        workspace = Workspace(options.tree.resolve(), Path(folder) / "tree")
        if options.command == "check":
            return check(workspace, mutants)
        session = Session(workspace, Results(options.results), mutants)
        if options.command == "group":
            session.run_grouped(None, "survived", "survived all", *options.pytest_options)
            return 0
        session.run_each(options.cap, Results(options.hints).rows if options.hints else {})
        session.confirm_kills()
        for part in PARTS:
            session.run_grouped(part, "open", "survived")
    return 0


if __name__ == "__main__":
    sys.exit(main())
