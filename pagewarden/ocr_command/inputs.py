"""Which files are to be read, and where their results go."""

from __future__ import annotations

import enum
import os
import sys
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from pagewarden import exports

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

STANDARD = "-"
SUFFIXES = frozenset(
    {".avif", ".bmp", ".gif", ".heic", ".heif", ".jpeg", ".jpg", ".pdf", ".png", ".tif", ".tiff",
     ".webp"}
)  # fmt: skip


class Wrong(Exception):
    """The command was typed in a way that makes no sense."""


class Existing(enum.StrEnum):
    """What to do where there is a result already."""

    REFUSE = "refuse"
    SKIP = "skip"
    REPLACE = "replace"


@dataclass(frozen=True, slots=True)
class Input:
    """A file to read.

    name is how the user knows it; place is where its results go, below the folder for results
    and without a suffix.
    """

    path: Path
    name: str
    place: Path

    def targets(self, folder: Path, formats: Sequence[str]) -> dict[str, Path]:
        """Say where the result in each format goes."""
        return {
            name: folder / self.place.with_name(self.place.name + exports.FORMATS[name].suffix)
            for name in formats
        }


def known(words: Iterable[str], all_known: Collection[str]) -> list[str]:
    """Refuse words that are not among those there are."""
    found = [word.strip() for word in words]
    for word in found:
        if word not in all_known:
            raise Wrong(f"{word!r} is not known; choose from {', '.join(all_known)}")
    return found


def take_standard_input(place: Path, *, limit: int) -> None:
    """Put it on disk, but no more of it than is needed to see that it is too long."""
    with place.open("xb") as file:
        while file.tell() <= limit and (part := sys.stdin.buffer.read(1 << 20)):
            file.write(part)


def find(words: Iterable[str], *, standard: Input, leave_out: Path | None = None) -> list[Input]:
    """Find the files that were named, and those in folders that were; none of them twice.

    standard stands for standard input. The folder leave_out has results in it, so it is not
    searched.
    """
    found: dict[Path, Input] = {}
    for word in words:
        for item in _named(word, standard, leave_out):
            found.setdefault(item.path.resolve(), item)
    return _apart(list(found.values()))


def check_printing(items: Sequence[Input], formats: Sequence[str]) -> None:
    """Refuse what cannot go to standard output."""
    if len(formats) > 1 or (len(items) > 1 and formats != ["txt"]):
        raise Wrong("only text, or one file in one format, can be printed; say -o DIR")
    if "pdf" in formats and sys.stdout.isatty():
        raise Wrong("a PDF makes no sense on a terminal; say -o DIR, or > searchable.pdf")


def check_folder(
    items: Sequence[Input], formats: Sequence[str], folder: Path, existing: Existing
) -> list[Input]:
    """Refuse to write over what is there; gives the files that are to be read."""
    if folder.exists() and not folder.is_dir():
        raise Wrong(f"{folder} is no folder; choose another one for the results")
    originals = {item.path.resolve() for item in items}
    results = {item: list(item.targets(folder, formats).values()) for item in items}
    there = [target for targets in results.values() for target in targets if target.exists()]
    for target in there:
        if target.resolve() in originals:
            raise Wrong(f"{target} is an original; choose another folder for the results")
    if there and existing is Existing.REFUSE:
        raise Wrong(f"{_some(there)} there already; say --existing skip or --existing replace")
    if existing is Existing.SKIP:
        return [item for item, targets in results.items() if not set(targets) <= set(there)]
    return list(items)


def _some(paths: Sequence[Path]) -> str:
    others = len(paths) - 1
    return f"{paths[0]} and {others} more are" if others else f"{paths[0]} is"


def _named(word: str, standard: Input, leave_out: Path | None) -> Iterator[Input]:
    path = Path(word)
    if word == STANDARD:
        yield standard
    elif path.is_dir():
        yield from _within(path, leave_out)
    elif path.is_file():
        yield Input(path, word, Path(path.stem))
    elif path.exists():
        raise Wrong(f"{word} is neither a file nor a folder; copy it into a file first")
    else:
        raise Wrong(f"there is no file {word}; check the path")


def _within(folder: Path, leave_out: Path | None) -> Iterator[Input]:
    """Go through a folder; here names have to do, for there may be anything in it."""
    empty = True
    for parent, folders, names in os.walk(folder):
        folders[:] = sorted(n for n in folders if not _is_passed_over(Path(parent, n), leave_out))
        for path in (Path(parent, name) for name in sorted(names)):
            hidden = path.name.startswith(".")
            if path.suffix.lower() in SUFFIXES and not hidden and path.is_file():
                yield Input(path, str(path), path.relative_to(folder).with_suffix(""))
                empty = False
    if empty:
        wanted = ", ".join(sorted(SUFFIXES))
        raise Wrong(f"there is nothing to read in {folder}; looked for {wanted}")


def _is_passed_over(folder: Path, leave_out: Path | None) -> bool:
    same = leave_out is not None and leave_out.exists() and folder.samefile(leave_out)
    return same or folder.name.startswith(".")


def _apart(items: Sequence[Input]) -> list[Input]:
    """Name the results of scan.pdf and scan.png scan.pdf.txt and scan.png.txt."""
    uses = Counter(item.place for item in items)
    apart = [
        replace(item, place=item.place.with_name(item.path.name)) if uses[item.place] > 1 else item
        for item in items
    ]
    for place, count in Counter(item.place for item in apart).items():
        if count > 1:
            same = " and ".join(item.name for item in apart if item.place == place)
            raise Wrong(f"the results of {same} would have the same name; read them one by one")
    return apart
