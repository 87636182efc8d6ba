"""A check job on its way in: kept on disk until all of it is known to be right, then queued."""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import dataclasses
import errno
import functools
import tempfile
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pydantic

from functions import answers, callbacks, forms, services, storing
from pagewarden import bars, files
from pagewarden import database as databases
from pagewarden.checks import archives, parcels
from pagewarden.telemetry import metrics

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping, Sequence

    from fastapi import Request

    from pagewarden.settings import Settings

KEY_HEADER = "idempotency-key"
TOKEN = "csrf"  # noqa: S105  # the name of a field
# Held in memory, unlike a form.
JSON_MAX_BYTES = 32_000_000
_ARCHIVE = "zip_file"
_PICTURES = ("images", "image")
_MOST_PARTS = 2_100
_WRITES_AT_ONCE = 8


class Encoded(pydantic.BaseModel, extra="forbid"):
    """A picture in JSON."""

    name: str | None = None
    data: str = pydantic.Field(description="Base64, also with data:image/png;base64, before it.")
    reference: str | list[str] | None = None


class Said(pydantic.BaseModel, extra="forbid"):
    """A job in JSON, and what a form says besides its files."""

    language: str | None = pydantic.Field(
        default=None,
        description="Such as fr or pt-BR. Default: PAGEWARDEN_CHECK_LANGUAGE; without either, the "
        "language of the text is not checked.",
    )
    image: str | Encoded | None = None
    images: list[str | Encoded] = pydantic.Field(default_factory=list)
    reference: str | list[str] | None = pydantic.Field(
        default=None, description="Strings that should be in pictures that have none of their own."
    )
    references: dict[str, str | list[str]] | None = pydantic.Field(
        default=None, description="Strings by the name of the picture."
    )
    require_references: bool = False
    allow: list[str] = pydantic.Field(
        default_factory=list, description="Words that may stand in any language, such as names."
    )
    name: str | None = None
    engine: str | None = None
    callback_url: str | None = None
    idempotency_key: str | None = None


Guard = Callable[[str], None]
"""Raises what a page says when its form carries the wrong token, or none, which is empty."""

FIELDS = tuple(name for name in Said.model_fields if name not in _PICTURES and name != "references")


@dataclass(slots=True)
class Parcel:
    """What has come so far, and what is wrong with it."""

    folder: Path
    limits: parcels.Limits
    said: Said = field(default_factory=Said)
    files: list[parcels.File] = field(default_factory=list)
    archives: list[parcels.File] = field(default_factory=list)
    problems: parcels.Problems = field(default_factory=parcels.Problems)
    left: int = 0
    guard: Guard | None = None
    token: str = ""

    def place(self) -> Path:
        """Name a file that is not there yet."""
        return self.folder / f"part-{uuid.uuid4()}"


@dataclass(frozen=True, slots=True)
class Submitted:
    """A job that is queued; existing: it was before."""

    job_id: str
    existing: bool


async def take_in(
    request: Request,
    used: services.Services,
    database: databases.Database,
    guard: Guard | None = None,
) -> Submitted:
    """Check a job of a request, store its pictures and queue it, or refuse it and keep nothing.

    A guard is given what the form has as csrf before any of it is looked at.
    """
    with _folder() as folder:
        limits = limits_of(used.settings)
        parcel = Parcel(folder, limits, left=limits.job_bytes, guard=guard)
        await _receive(request, parcel)
        if guard is not None:
            guard(parcel.token)
        callback = parcel.said.callback_url
        if callback is not None and (problem := callbacks.problem_of(callback, used)):
            parcel.problems.add(f"callback_url: {problem}")
        try:
            order = await asyncio.to_thread(_order, parcel, used.settings.check_language)
        except parcels.RefusedError as exc:
            raise _refused(exc.problems) from exc
        return await _submit(order, callback, used, database)


def _refused(problems: Sequence[parcels.Problem]) -> answers.RefusedError:
    found = [answers.Problem(problem=one.problem, image=one.image) for one in problems]
    few = f"{bars.count(len(found), 'problem')}: {parcels.RefusedError(problems[:3])}"
    more = "; and more" if len(found) > 3 else ""
    return answers.RefusedError(400, "INVALID_JOB", few + more, problems=found)


def limits_of(settings: Settings) -> parcels.Limits:
    """Say how much a job may bring."""
    return parcels.Limits(
        settings.check_max_images, settings.check_max_image_bytes, settings.check_max_job_bytes
    )


@contextlib.contextmanager
def _folder() -> Iterator[Path]:
    """Have a folder for what comes; a disk that is full is said, not a fault of ours."""
    try:
        with tempfile.TemporaryDirectory(prefix="pagewarden-job-") as folder:
            yield Path(folder)
    except OSError as exc:
        if exc.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise answers.RefusedError(
            507, "STORE_FULL", "the disk of this server is full; try again later"
        ) from exc


async def _receive(request: Request, parcel: Parcel) -> None:
    boundary = forms.boundary(request)
    if boundary is not None:
        await _receive_form(forms.Form(forms.body(request), boundary), parcel)
    else:
        await _receive_json(request, parcel)
    if key := request.headers.get(KEY_HEADER):
        parcel.said = parcel.said.model_copy(update={"idempotency_key": key})


# Forms --------------------------------------------------------------------------------------


async def _receive_form(form: forms.Form, parcel: Parcel) -> None:
    fields: dict[str, Any] = {}
    parts = 0
    async for event, value in form.events():
        if event != "part":
            continue
        parts += 1
        if parts > _MOST_PARTS:
            raise answers.RefusedError(400, "INVALID_REQUEST", "the form has too many parts")
        name, file_name = value
        if file_name is None:
            _note(fields, name, await form.text(), parcel)
        else:
            await _receive_file(name, file_name.strip(), form.part(), parcel)
    parcel.said = _said(fields, parcel)


def _note(fields: dict[str, Any], name: str, text: str, parcel: Parcel) -> None:
    """Note what a field says; browsers also send those that nobody filled in."""
    if name == TOKEN and parcel.guard is not None:
        parcel.token = text
    elif name not in FIELDS:
        parcel.problems.add(f"there is no field {name!r}; known are {', '.join(FIELDS)}")
    elif name == "allow":
        words = (line.strip() for line in text.splitlines())
        fields.setdefault(name, []).extend(word for word in words if word)
    elif text.strip():
        fields[name] = text


async def _receive_file(
    field_name: str, name: str, chunks: AsyncIterator[bytes], parcel: Parcel
) -> None:
    kept = parcels.File(name, parcel.place())
    with kept.path.open("wb") as target:
        async for chunk in chunks:
            parcel.left -= len(chunk)
            if parcel.left < 0:
                raise _too_much(parcel)
            target.write(chunk)
    if not name and not kept.path.stat().st_size:
        return  # so browsers say that no file was chosen
    is_archive = name.lower().endswith(archives.SUFFIX)
    if field_name == _ARCHIVE or (field_name in _PICTURES and is_archive):
        parcel.archives.append(kept)
    elif field_name in (*_PICTURES, "references"):
        parcel.files.append(kept)
    else:
        known = ", ".join((_ARCHIVE, *_PICTURES, "references"))
        parcel.problems.add(f"there is no file {field_name!r}; known are {known}", name)


def _too_much(parcel: Parcel) -> answers.RefusedError:
    most = f"{parcel.limits.job_bytes:,}"
    return answers.RefusedError(
        413, "JOB_TOO_LARGE", f"a job has at most {most} bytes; send several jobs"
    )


# JSON ---------------------------------------------------------------------------------------


async def _receive_json(request: Request, parcel: Parcel) -> None:
    body = bytearray()
    async for chunk in forms.body(request):
        body += chunk
        if len(body) > JSON_MAX_BYTES:
            raise answers.RefusedError(
                413,
                "JOB_TOO_LARGE",
                f"a job in JSON has at most {JSON_MAX_BYTES:,} bytes; send a form",
            )
    try:
        parsed = pydantic.TypeAdapter(dict[str, Any]).validate_json(bytes(body))
    except pydantic.ValidationError as exc:
        raise answers.RefusedError(
            400,
            "INVALID_REQUEST",
            "the body is neither a form nor a JSON object; send multipart/form-data with zip_file",
        ) from exc
    parcel.said = _said(parsed, parcel)
    single = [] if parcel.said.image is None else [parcel.said.image]
    named: dict[str, Any] = {}
    for number, image in enumerate((*single, *parcel.said.images), start=1):
        one = Encoded(data=image) if isinstance(image, str) else image
        name = one.name or f"image-{number}"
        _decode(name, one.data, parcel)
        if one.reference is not None:
            named[name] = one.reference
    if named:
        both = {**(parcel.said.references or {}), **named}
        parcel.said = parcel.said.model_copy(update={"references": both})


def _decode(name: str, data: str, parcel: Parcel) -> None:
    _, _, encoded = data.rpartition("base64,") if data.startswith("data:") else ("", "", data)
    try:
        decoded = base64.b64decode("".join(encoded.split()), validate=True)
    except (binascii.Error, ValueError):
        parcel.problems.add("it is not base64; encode the bytes of the picture anew", name)
        return
    kept = parcels.File(name, parcel.place())
    kept.path.write_bytes(decoded)
    parcel.files.append(kept)


def _said(fields: Mapping[str, Any], parcel: Parcel) -> Said:
    """Understand what was said; what is wrong is noted, and the rest is understood."""
    try:
        return Said.model_validate(fields)
    except pydantic.ValidationError as exc:
        wrong = set()
        for problem in exc.errors():
            place = ".".join(map(str, problem["loc"][:2]))
            parcel.problems.add(f"{place}: {problem['msg']}")
            wrong.add(problem["loc"][0])
        return Said.model_validate({k: v for k, v in fields.items() if k not in wrong})


# Queueing -----------------------------------------------------------------------------------


def _order(parcel: Parcel, default_language: str | None) -> parcels.Order:
    """Unpack and look at everything; takes a while for a large job."""
    found = [*parcel.files, *_unpack(parcel)]
    said = parcel.said
    reference = "\n".join(said.reference) if isinstance(said.reference, list) else said.reference
    wishes = parcels.Wishes(
        language=said.language or default_language,
        reference=reference,
        by_name=said.references,
        references_required=said.require_references,
        allowed=said.allow,
        engine=said.engine,
        title=said.name,
        key=said.idempotency_key,
    )
    return parcels.order(found, wishes, parcel.limits, parcel.problems)


def _unpack(parcel: Parcel) -> list[parcels.File]:
    """Unpack all archives; together they may bring no more than one."""
    found: list[parcels.File] = []
    left = parcel.limits
    for number, archive in enumerate(parcel.archives):
        folder = parcel.folder / f"archive-{number}"
        folder.mkdir()
        files = archives.unpack(archive, folder, left, parcel.problems)
        unpacked = sum(file.path.stat().st_size for file in files)
        left = dataclasses.replace(left, job_bytes=left.job_bytes - unpacked)
        found += files
        if len(found) > left.entries:
            parcel.problems.add(f"the archives have more than {left.entries:,} files")
            break
    return found


async def _submit(
    order: parcels.Order,
    callback: str | None,
    used: services.Services,
    database: databases.Database,
) -> Submitted:
    job_id = str(uuid.uuid4())
    paths = _paths(order, job_id)
    async with storing.no_orphans(used.store, paths.values()):
        await _store(order, paths, used)
        call = functools.partial(
            database.submit_check_job,
            job_id=job_id,
            language=order.language.code if order.language else None,
            reading_language=order.language.reading if order.language else None,
            images=[_image(picture, paths[picture.sha256]) for picture in order.pictures],
            allowed=list(order.wishes.allowed),
            name=order.wishes.title,
            engine=order.wishes.engine,
            seconds=round(used.settings.check_job_seconds),
            callback_url=callback,
            idempotency_key=order.wishes.key,
            request_digest=order.digest if order.wishes.key else None,
        )
        answer = answers.require_success(await databases.with_retries(call, database=used.database))
    metrics.current().uploads.labels("check").inc(len(order.pictures))
    metrics.current().upload_bytes.inc(sum(picture.size for picture in order.pictures))
    if answer["existing"]:
        await storing.remove(used.store, paths.values())
    return Submitted(answer["job_id"], existing=bool(answer["existing"]))


def _paths(order: parcels.Order, job_id: str) -> dict[str, str]:
    """Say where each picture is stored, by its digest: the same bytes are stored once."""
    upload = uuid.uuid4()
    return {
        picture.sha256: f"{job_id}/{upload}/{number}-{files.safe_name(Path(picture.name).name)}"
        for number, picture in reversed(list(enumerate(order.pictures, start=1)))
    }


async def _store(order: parcels.Order, paths: Mapping[str, str], used: services.Services) -> None:
    places = asyncio.Semaphore(_WRITES_AT_ONCE)
    pictures = {picture.sha256: picture for picture in order.pictures}

    async def write(sha256: str, picture: parcels.Picture) -> None:
        async with places:
            await used.store.write(paths[sha256], _chunks(picture.path))

    # All of them end before anybody is told of the first that failed: it removes what was stored.
    ends = await asyncio.gather(
        *(write(*entry) for entry in pictures.items()), return_exceptions=True
    )
    for end in ends:
        if isinstance(end, BaseException):
            raise end


async def _chunks(path: Path) -> AsyncIterator[bytes]:
    yield await asyncio.to_thread(path.read_bytes)  # a few megabytes at most


def _image(picture: parcels.Picture, path: str) -> dict[str, Any]:
    return {
        "name": picture.name,
        "dropbox_path": path,
        "sha256": picture.sha256,
        "size_bytes": picture.size,
        "mime_type": f"image/{picture.kind}",
        "file_extension": picture.kind,
        "reference": list(picture.reference) if picture.reference is not None else None,
    }
