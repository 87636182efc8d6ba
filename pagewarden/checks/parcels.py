"""What is sent to be checked: files and wishes in, pictures with what they should say out.

All that is wrong is said at once, so that nobody has to find out piece by piece.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from pagewarden import errors
from pagewarden.checks import languages, references
from pagewarden.reading import engines, formats

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

TEXT = ".txt"
_STRINGS = {f"references{suffix}" for suffix in references.SUFFIXES}
_LONGEST_NAME = 1024
_LONGEST_TITLE = 300
_LONGEST_KEY = 200
_MOST_ALLOWED = 1000
_UNPRINTABLE = re.compile("[\0-\x1f\x7f\ud800-\udfff]")
_MOST_PROBLEMS = 200


class WrongError(Exception):
    """One thing that is wrong; the message says what, and what to do."""


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong, and with which file; None where it is the job itself."""

    problem: str
    image: str | None = None


@dataclass(slots=True)
class Problems:
    """All that is wrong so far; more than anybody reads is not kept."""

    found: list[Problem] = field(default_factory=list)

    def add(self, problem: str, image: str | None = None) -> None:
        """Note a problem."""
        if len(self.found) < _MOST_PROBLEMS:
            self.found.append(Problem(problem, image))


class RefusedError(Exception):
    """A parcel that is not taken, with everything that is wrong with it."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("; ".join(f"{one.image or 'job'}: {one.problem}" for one in problems))
        self.problems = problems


@dataclass(frozen=True, slots=True)
class Limits:
    """How much a job may bring; file_bytes is for each file, job_bytes for all together."""

    images: int
    file_bytes: int
    job_bytes: int

    @property
    def entries(self) -> int:
        """Say how many files an archive may have: a text for each picture, and some to spare."""
        return 2 * self.images + 10


@dataclass(frozen=True, slots=True)
class File:
    """A file as its sender calls it, and where it lies."""

    name: str
    path: Path


@dataclass(frozen=True, slots=True)
class Wishes:
    """What was sent beside the files, as it was sent.

    reference is for pictures that have none of their own; by_name is as references.json has it.
    """

    language: str | None = None
    reference: str | None = None
    by_name: Mapping[str, Any] | None = None
    references_required: bool = False
    allowed: Sequence[str] = ()
    engine: str | None = None
    title: str | None = None
    key: str | None = None


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture to be checked; sha256 is of its bytes, kind as formats names it."""

    name: str
    path: Path
    size: int
    sha256: str
    kind: str
    reference: Sequence[str] | None


@dataclass(frozen=True, slots=True)
class Order:
    """A job that can be queued; without a language, that of the text is not checked."""

    language: languages.Language | None
    pictures: Sequence[Picture]
    wishes: Wishes

    @property
    def digest(self) -> str:
        """Tell this order from others."""
        said = {
            "language": self.language.code if self.language else None,
            "allowed": list(self.wishes.allowed),
            "engine": self.wishes.engine,
            "title": self.wishes.title,
            "pictures": [(one.name, one.sha256, one.reference) for one in self.pictures],
        }
        return hashlib.sha256(json.dumps(said).encode()).hexdigest()


def problem_of_name(name: str) -> str | None:
    """Say what is wrong with the name of a file; None is nothing."""
    path = PurePosixPath(name)
    if (
        not path.name
        or _UNPRINTABLE.search(name)
        or len(name.encode(errors="replace")) > _LONGEST_NAME
    ):
        return f"a name has 1 to {_LONGEST_NAME} bytes that can be printed; call it something else"
    if path.is_absolute() or ".." in path.parts or "\\" in name or re.match("[A-Za-z]:", name):
        return "its name leads out of the archive; name it without .. and without a root"
    return None


def order(files: Sequence[File], wishes: Wishes, limits: Limits, problems: Problems) -> Order:
    """Put a job together, or raise everything that is wrong."""
    language = _language(wishes, problems)
    _look_at(wishes, problems)
    pictures = list(_pictures(files, wishes, limits, problems))
    if problems.found:
        raise RefusedError(problems.found)
    return Order(language, pictures, wishes)


def _language(wishes: Wishes, problems: Problems) -> languages.Language | None:
    if not wishes.language:
        return None
    try:
        return languages.find(wishes.language)
    except languages.Unknown as exc:
        problems.add(str(exc))
        return None


def _look_at(wishes: Wishes, problems: Problems) -> None:
    if wishes.engine is not None:
        try:
            engines.find(wishes.engine)
        except errors.EngineMissing as exc:
            problems.add(str(exc))
    if len(wishes.allowed) > _MOST_ALLOWED or any(map(references.unstorable, wishes.allowed)):
        problems.add(f"at most {_MOST_ALLOWED:,} words can be allowed, of proper characters")
    for what, text, most in (
        ("name", wishes.title, _LONGEST_TITLE),
        ("idempotency key", wishes.key, _LONGEST_KEY),
    ):
        if text is not None and not _is_label(text, most):
            problems.add(f"the {what} has 1 to {most} bytes, of proper characters")


def _is_label(text: str, most: int) -> bool:
    fits = len(text.encode(errors="replace")) <= most
    return bool(text.strip()) and fits and not references.unstorable(text)


def _pictures(
    files: Sequence[File], wishes: Wishes, limits: Limits, problems: Problems
) -> Iterator[Picture]:
    texts = {file.name: file for file in files if PurePosixPath(file.name).suffix.lower() == TEXT}
    lists = [file for file in files if _is_list(file)]
    images = [file for file in files if file.name not in texts and not _is_list(file)]
    known = _known(lists, wishes, problems)
    _require_sensible(images, limits, problems)
    used: set[str] = set()
    for file in images:
        beside = texts.get(str(PurePosixPath(file.name).with_suffix(TEXT)))
        used |= {beside.name} if beside else set()
        reference = _reference(file, known, beside, wishes, problems)
        if picture := _picture(file, reference, limits, problems):
            yield picture
    for name in texts.keys() - used:
        problems.add(f"it belongs to no picture; call it as the picture, with {TEXT}", name)
    if known and images and not any(known.of(file.name) is not None for file in images):
        some = ", ".join(known.names[:3])
        problems.add(f"the references are for none of the pictures, but for {some}")


def _is_list(file: File) -> bool:
    return PurePosixPath(file.name).name.lower() in _STRINGS


def _require_sensible(images: Sequence[File], limits: Limits, problems: Problems) -> None:
    if not images:
        problems.add("there is no picture; send some as zip_file, images or image")
    if len(images) > limits.images:
        problems.add(
            f"{len(images):,} pictures, and {limits.images:,} is the most; send several jobs"
        )
    names = Counter(file.name for file in images)
    for name in sorted(name for name, count in names.items() if count > 1):
        problems.add("two pictures have this name; call one of them something else", name)


def _known(
    lists: Sequence[File], wishes: Wishes, problems: Problems
) -> references.References | None:
    """Understand the strings of many pictures, wherever they were sent."""
    if len(lists) + (wishes.by_name is not None) > 1:
        problems.add("there are several lists of references; send one")
        return None
    try:
        if wishes.by_name is not None:
            return references.parse("references.json", json.dumps(wishes.by_name).encode())
        for file in lists:
            return references.parse(PurePosixPath(file.name).name, _bytes(file.path))
    except references.Wrong as exc:
        problems.add(str(exc))
    return None


def _reference(
    file: File,
    known: references.References | None,
    beside: File | None,
    wishes: Wishes,
    problems: Problems,
) -> list[str] | None:
    found = known.of(file.name) if known else None
    try:
        if found is None and beside is not None:
            found = references.lines(beside.name, _bytes(beside.path))
        if found is None and wishes.reference is not None:
            found = references.lines("reference", wishes.reference.encode())
    except references.Wrong as exc:
        problems.add(str(exc), file.name)
    if found is None and wishes.references_required:
        problems.add("it has no reference, and references are required", file.name)
    return found


def _bytes(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(references.MOST_BYTES + 1)


def _picture(
    file: File, reference: Sequence[str] | None, limits: Limits, problems: Problems
) -> Picture | None:
    if problem := problem_of_name(file.name):
        problems.add(problem, file.name)
        return None
    size = file.path.stat().st_size
    if size > limits.file_bytes:
        problems.add(f"it has {size:,} bytes, and {limits.file_bytes:,} is the most", file.name)
        return None
    with file.path.open("rb") as opened:
        head = opened.read(formats.HEAD_BYTES)
        opened.seek(0)
        digest = hashlib.file_digest(opened, "sha256").hexdigest()
    kind = formats.detect(head)
    if kind is None or kind == "pdf":
        what = "a PDF" if kind else "empty" if not head else formats.describe(head)
        problems.add(f"it is {what}, and no picture that is read here; send PNG or JPEG", file.name)
        return None
    return Picture(file.name, file.path, size, digest, kind, reference)
