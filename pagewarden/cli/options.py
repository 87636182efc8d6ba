"""Options, input files and output targets shared by several commands."""

from __future__ import annotations

import enum
import os
import sys
import uuid
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pagewarden import exports
from pagewarden.ocr import engines

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from pagewarden import client

STANDARD_INPUT = "-"
SUFFIXES = frozenset(
    {".avif", ".bmp", ".gif", ".heic", ".heif", ".jpeg", ".jpg", ".pdf", ".png", ".tif", ".tiff",
     ".webp"}
)  # fmt: skip


class UsageError(Exception):
    """The arguments of the command are invalid."""


class OverwritePolicy(enum.StrEnum):
    """What to do with results that already exist."""

    REFUSE = "refuse"
    SKIP = "skip"
    REPLACE = "replace"


@dataclass(frozen=True, slots=True)
class InputFile:
    """A file to read.

    `name` is shown to the user; `result_path` is relative to the output folder and has no suffix.
    """

    path: Path
    name: str
    result_path: Path

    def list_targets(self, folder: Path, formats: Sequence[str]) -> dict[str, Path]:
        """Return the output file of each format."""
        return {
            name: folder
            / self.result_path.with_name(self.result_path.name + exports.FORMATS[name].suffix)
            for name in formats
        }


def parse_choices(values: Iterable[str], choices: Collection[str]) -> list[str]:
    """Return the stripped values; raise `UsageError` if one is not among the choices."""
    parsed = [value.strip() for value in values]
    for value in parsed:
        if value not in choices:
            raise UsageError(f"{value!r} is not valid; choose from {', '.join(choices)}")
    return parsed


def save_standard_input(path: Path, *, limit: int) -> None:
    """Write standard input to a file; stop beyond `limit`, so that the file is rejected later."""
    with path.open("xb") as file:
        while file.tell() <= limit and (part := sys.stdin.buffer.read(1 << 20)):
            file.write(part)


def find_inputs(
    paths: Iterable[str], *, standard_input: InputFile, exclude: Path | None = None
) -> list[InputFile]:
    """Find the named files, and those in named folders, without duplicates.

    `exclude` is a folder that is not searched, because results are written to it.
    """
    found: dict[Path, InputFile] = {}
    for path in paths:
        for item in _expand_path(path, standard_input, exclude):
            found.setdefault(item.path.resolve(), item)
    return _make_results_distinct(list(found.values()))


def require_printable(items: Sequence[InputFile], formats: Sequence[str]) -> None:
    """Raise `UsageError` if the results cannot be written to standard output."""
    if len(formats) > 1 or (len(items) > 1 and formats != ["txt"]):
        raise UsageError("only text, or one file in one format, can be printed; use -o DIR")
    if "pdf" in formats and sys.stdout.isatty():
        raise UsageError(
            "a PDF cannot be shown on a terminal; use -o DIR, or redirect the output (> "
            "searchable.pdf)"
        )


def apply_overwrite_policy(
    items: Sequence[InputFile], formats: Sequence[str], folder: Path, existing: OverwritePolicy
) -> list[InputFile]:
    """Return the files to read; raise `UsageError` rather than overwrite a file."""
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is not a folder; choose another output folder")
    originals = {item.path.resolve() for item in items}
    results = {item: list(item.list_targets(folder, formats).values()) for item in items}
    present = [target for targets in results.values() for target in targets if target.exists()]
    for target in present:
        if target.resolve() in originals:
            raise UsageError(f"{target} is an input file; choose another output folder")
    if present and existing is OverwritePolicy.REFUSE:
        raise UsageError(f"{_format_existing(present)}; use --existing skip or --existing replace")
    if existing is OverwritePolicy.SKIP:
        return [item for item, targets in results.items() if not set(targets) <= set(present)]
    return list(items)


def _format_existing(paths: Sequence[Path]) -> str:
    others = len(paths) - 1
    return f"{paths[0]} and {others} more exist" if others else f"{paths[0]} exists"


def _expand_path(name: str, standard_input: InputFile, exclude: Path | None) -> Iterator[InputFile]:
    path = Path(name)
    if name == STANDARD_INPUT:
        yield standard_input
    elif path.is_dir():
        yield from _walk(path, exclude)
    elif path.is_file():
        yield InputFile(path, name, Path(path.stem))
    elif path.exists():
        raise UsageError(f"{name} is neither a file nor a folder; copy it to a file first")
    else:
        raise UsageError(f"there is no file {name}; check the path")


def _walk(folder: Path, exclude: Path | None) -> Iterator[InputFile]:
    """Find readable files in a folder, by suffix: it may hold files of any type."""
    empty = True
    for parent, folders, names in os.walk(folder):
        folders[:] = sorted(n for n in folders if not _is_excluded(Path(parent, n), exclude))
        for path in (Path(parent, name) for name in sorted(names)):
            hidden = path.name.startswith(".")
            if path.suffix.lower() in SUFFIXES and not hidden and path.is_file():
                yield InputFile(path, str(path), path.relative_to(folder).with_suffix(""))
                empty = False
    if empty:
        suffixes = ", ".join(sorted(SUFFIXES))
        raise UsageError(f"there are no readable files in {folder}; supported: {suffixes}")


def _is_excluded(folder: Path, exclude: Path | None) -> bool:
    is_excluded = exclude is not None and exclude.exists() and folder.samefile(exclude)
    return is_excluded or folder.name.startswith(".")


def _make_results_distinct(items: Sequence[InputFile]) -> list[InputFile]:
    """Name the results of scan.pdf and scan.png scan.pdf.txt and scan.png.txt."""
    uses = Counter(item.result_path for item in items)
    separate = [
        replace(item, result_path=item.result_path.with_name(item.path.name))
        if uses[item.result_path] > 1
        else item
        for item in items
    ]
    for result_path, count in Counter(item.result_path for item in separate).items():
        if count > 1:
            same = " and ".join(item.name for item in separate if item.result_path == result_path)
            raise UsageError(
                f"the results of {same} would have the same name; read them separately"
            )
    return separate


Url = Annotated[
    str | None,
    typer.Option(metavar="URL", help="URL of the server. Default: PAGEWARDEN_SITE_URL."),
]
Case = Annotated[
    str | None, typer.Option(metavar="ID", help="Case to upload to. Default: your inbox.")
]
Lang = Annotated[str | None, typer.Option(help="Languages of the text, such as deu,fra.")]
Engine = Annotated[str | None, typer.Option(help=f"OCR engine: {', '.join(engines.ENGINES)}.")]
Profile = Annotated[
    str | None,
    typer.Option(help=f"OCR profile (speed or accuracy): {', '.join(engines.PROFILES)}."),
]


def make_upload_options(
    case: str | None, lang: str | None, engine: str | None, profile: str | None
) -> client.UploadOptions:
    """Return the upload options; raise `UsageError` if one is invalid."""
    if engine is not None:
        parse_choices([engine], engines.ENGINES)
    if profile is not None:
        parse_choices([profile], engines.PROFILES)
    from pagewarden import client as clients  # noqa: PLC0415  # local commands need no client

    return clients.UploadOptions(_parse_case_id(case), lang, engine, profile)


def _parse_case_id(case: str | None) -> str | None:
    try:
        return case and str(uuid.UUID(case))
    except ValueError as exc:
        raise UsageError(
            f"{case!r} is not a case ID; copy the ID from the URL of the case"
        ) from exc
