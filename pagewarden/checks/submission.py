"""Validate a submitted job: its files and options become pictures with expected strings.

All problems are collected and reported together.
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
from pagewarden.checks import references
from pagewarden.checks.rules import languages
from pagewarden.ocr import engines, file_types

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

TEXT_SUFFIX = ".txt"
_REFERENCE_FILES = {f"references{suffix}" for suffix in references.SUFFIXES}
_MAX_NAME_BYTES = 1024
_MAX_TITLE_BYTES = 300
_MAX_KEY_BYTES = 200
_MAX_ALLOWED_WORDS = 1000
_UNPRINTABLE = re.compile("[\0-\x1f\x7f\ud800-\udfff]")
_MAX_PROBLEMS = 200
_PROBLEMS_IN_MESSAGE = 3


class InvalidSubmission(Exception):
    """One problem of a submission; the message says how to fix it."""


@dataclass(slots=True)
class ProblemCollector:
    """Problems found so far, up to a limit."""

    found: list[errors.Problem] = field(default_factory=list)

    def add(self, problem: str, image: str | None = None) -> None:
        """Add a problem, unless the limit is reached."""
        if len(self.found) < _MAX_PROBLEMS:
            self.found.append(errors.Problem(problem, image))


def make_rejection(problems: Sequence[errors.Problem]) -> errors.RequestRejected:
    """Return the error for these problems; its message names the first ones."""
    first = "; ".join(
        f"{problem.image or 'job'}: {problem.problem}"
        for problem in problems[:_PROBLEMS_IN_MESSAGE]
    )
    count = f"{len(problems):,} problem{'' if len(problems) == 1 else 's'}"
    more = "; and more" if len(problems) > _PROBLEMS_IN_MESSAGE else ""
    return errors.RequestRejected("INVALID_JOB", f"{count}: {first}{more}", problems)


@dataclass(frozen=True, slots=True)
class JobLimits:
    """Limits of a job; file_bytes applies to each file, job_bytes to all together."""

    images: int
    file_bytes: int
    job_bytes: int

    @property
    def entries(self) -> int:
        """Maximum number of files in an archive: a text per picture, and some margin."""
        return 2 * self.images + 10


@dataclass(frozen=True, slots=True)
class ReceivedFile:
    """A received file: its original name, and its path on disk."""

    name: str
    path: Path


@dataclass(frozen=True, slots=True)
class SubmissionOptions:
    """The options of a job, not yet validated.

    reference is for pictures without references of their own; by_name has the form of
    references.json.
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
    """A picture to check; kind is one of ocr.file_types."""

    name: str
    path: Path
    size: int
    sha256: str
    kind: str
    reference: Sequence[str] | None


@dataclass(frozen=True, slots=True)
class Submission:
    """A valid job; without `language`, the language of the text is not checked."""

    language: languages.Language | None
    pictures: Sequence[Picture]
    options: SubmissionOptions

    @property
    def digest(self) -> str:
        """Digest of the request, which detects reuse of an idempotency key for another job."""
        request = {
            "language": self.language.code if self.language else None,
            "allowed": list(self.options.allowed),
            "engine": self.options.engine,
            "title": self.options.title,
            "pictures": [
                (picture.name, picture.sha256, picture.reference) for picture in self.pictures
            ],
        }
        return hashlib.sha256(json.dumps(request).encode()).hexdigest()


def find_name_problem(name: str) -> str | None:
    """Return what is wrong with the name of a file, or None if it is valid."""
    path = PurePosixPath(name)
    if (
        not path.name
        or _UNPRINTABLE.search(name)
        or len(name.encode(errors="replace")) > _MAX_NAME_BYTES
    ):
        return (
            f"a file name must be 1 to {_MAX_NAME_BYTES} bytes of printable characters; rename "
            "the file"
        )
    if path.is_absolute() or ".." in path.parts or "\\" in name or re.match("[A-Za-z]:", name):
        return "the path points outside the archive; use a relative path without `..`"
    return None


def validate_submission(
    files: Sequence[ReceivedFile],
    options: SubmissionOptions,
    limits: JobLimits,
    problems: ProblemCollector,
) -> Submission:
    """Return the valid job, or raise RequestRejected with all problems."""
    language = _find_language(options, problems)
    _check_options(options, problems)
    pictures = list(_find_pictures(files, options, limits, problems))
    if problems.found:
        raise make_rejection(problems.found)
    return Submission(language, pictures, options)


def _find_language(
    options: SubmissionOptions, problems: ProblemCollector
) -> languages.Language | None:
    if not options.language:
        return None
    try:
        return languages.find_language(options.language)
    except languages.UnsupportedLanguage as exc:
        problems.add(str(exc))
        return None


def _check_options(options: SubmissionOptions, problems: ProblemCollector) -> None:
    if options.engine is not None:
        try:
            engines.find_engine(options.engine)
        except errors.EngineNotInstalled as exc:
            problems.add(str(exc))
    if len(options.allowed) > _MAX_ALLOWED_WORDS or any(
        map(references.is_unstorable, options.allowed)
    ):
        problems.add(
            f"the list of allowed words may contain at most {_MAX_ALLOWED_WORDS:,} words and no "
            "invalid characters"
        )
    for what, text, max_bytes in (
        ("name", options.title, _MAX_TITLE_BYTES),
        ("idempotency key", options.key, _MAX_KEY_BYTES),
    ):
        if text is not None and not _is_valid_label(text, max_bytes):
            problems.add(
                f"the {what} must be 1 to {max_bytes} bytes long, without invalid characters"
            )


def _is_valid_label(text: str, max_bytes: int) -> bool:
    fits = len(text.encode(errors="replace")) <= max_bytes
    return bool(text.strip()) and fits and not references.is_unstorable(text)


def _find_pictures(
    files: Sequence[ReceivedFile],
    options: SubmissionOptions,
    limits: JobLimits,
    problems: ProblemCollector,
) -> Iterator[Picture]:
    texts = {
        file.name: file for file in files if PurePosixPath(file.name).suffix.lower() == TEXT_SUFFIX
    }
    reference_files = [file for file in files if _is_reference_file(file)]
    images = [file for file in files if file.name not in texts and not _is_reference_file(file)]
    known = _parse_reference_file(reference_files, options, problems)
    _check_images(images, limits, problems)
    used: set[str] = set()
    for file in images:
        text_file = texts.get(str(PurePosixPath(file.name).with_suffix(TEXT_SUFFIX)))
        used |= {text_file.name} if text_file else set()
        reference = _find_reference(file, known, text_file, options, problems)
        if picture := _to_picture(file, reference, limits, problems):
            yield picture
    for name in texts.keys() - used:
        problems.add(
            "this text file matches no picture; give it the name of its picture, with "
            f"{TEXT_SUFFIX}",
            name,
        )
    if known and images and not any(known.find(file.name) is not None for file in images):
        some = ", ".join(known.names[:3])
        problems.add(f"none of the references matches a picture; the references are for {some}")


def _is_reference_file(file: ReceivedFile) -> bool:
    return PurePosixPath(file.name).name.lower() in _REFERENCE_FILES


def _check_images(
    images: Sequence[ReceivedFile], limits: JobLimits, problems: ProblemCollector
) -> None:
    if not images:
        problems.add("the job has no pictures; send them as zip_file, images or image")
    if len(images) > limits.images:
        problems.add(
            f"{len(images):,} pictures exceed the limit of {limits.images:,}; send several jobs"
        )
    names = Counter(file.name for file in images)
    for name in sorted(name for name, count in names.items() if count > 1):
        problems.add("more than one picture has this name; rename them", name)


def _parse_reference_file(
    files: Sequence[ReceivedFile], options: SubmissionOptions, problems: ProblemCollector
) -> references.References | None:
    """Parse the strings of many pictures from a file or an option."""
    if len(files) + (options.by_name is not None) > 1:
        problems.add("the job has more than one reference file; send only one")
        return None
    try:
        if options.by_name is not None:
            return references.parse_file("references.json", json.dumps(options.by_name).encode())
        for file in files:
            return references.parse_file(PurePosixPath(file.name).name, _read_bytes(file.path))
    except references.InvalidReferences as exc:
        problems.add(str(exc))
    return None


def _find_reference(
    file: ReceivedFile,
    shared_references: references.References | None,
    reference_file: ReceivedFile | None,
    options: SubmissionOptions,
    problems: ProblemCollector,
) -> list[str] | None:
    found = shared_references.find(file.name) if shared_references else None
    try:
        if found is None and reference_file is not None:
            found = references.parse_lines(reference_file.name, _read_bytes(reference_file.path))
        if found is None and options.reference is not None:
            found = references.parse_lines("reference", options.reference.encode())
    except references.InvalidReferences as exc:
        problems.add(str(exc), file.name)
    if found is None and options.references_required:
        problems.add("the picture has no reference, and references are required", file.name)
    return found


def _read_bytes(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(references.MAX_BYTES + 1)


def _to_picture(
    file: ReceivedFile,
    reference: Sequence[str] | None,
    limits: JobLimits,
    problems: ProblemCollector,
) -> Picture | None:
    if problem := find_name_problem(file.name):
        problems.add(problem, file.name)
        return None
    size = file.path.stat().st_size
    if size > limits.file_bytes:
        problems.add(f"{size:,} bytes exceed the limit of {limits.file_bytes:,}", file.name)
        return None
    with file.path.open("rb") as image:
        head = image.read(file_types.HEAD_BYTES)
        image.seek(0)
        digest = hashlib.file_digest(image, "sha256").hexdigest()
    kind = file_types.detect(head)
    if kind is None or kind == "pdf":
        what = "a PDF" if kind else "empty" if not head else file_types.describe(head)
        problems.add(f"the file is {what}, not a supported picture; send PNG or JPEG", file.name)
        return None
    return Picture(file.name, file.path, size, digest, kind, reference)
