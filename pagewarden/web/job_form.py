"""Parse a check job from a form or JSON, and submit it."""

from __future__ import annotations

import base64
import binascii
import contextlib
import errno
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pydantic
import structlog

from pagewarden.checks import jobs, submission
from pagewarden.checks.zip_archive import SUFFIX
from pagewarden.errors import RequestRejected
from pagewarden.web import request_body

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping

    from fastapi import Request

    from pagewarden.database import Database

KEY_HEADER = "idempotency-key"
CSRF_FIELD = "csrf"
# JSON is held in memory, unlike a form.
JSON_MAX_BYTES = 32_000_000
_ARCHIVE = "zip_file"
_PICTURES = ("images", "image")
_MAX_PARTS = 2_100


class EncodedImage(pydantic.BaseModel, extra="forbid"):
    """A picture in JSON."""

    name: str | None = None
    data: str = pydantic.Field(
        description="Base64-encoded image, optionally with a prefix such as data:image/png;base64,"
    )
    reference: str | list[str] | None = None


class JobFields(pydantic.BaseModel, extra="forbid"):
    """A job in JSON, and the fields of a form besides its files."""

    language: str | None = pydantic.Field(
        default=None,
        description="Expected language, such as fr or pt-BR. Default: PAGEWARDEN_CHECK_LANGUAGE; "
        "without either, the language of the text is not checked.",
    )
    image: str | EncodedImage | None = None
    images: list[str | EncodedImage] = pydantic.Field(default_factory=list)
    reference: str | list[str] | None = pydantic.Field(
        default=None, description="Expected strings for pictures without strings of their own."
    )
    references: dict[str, str | list[str]] | None = pydantic.Field(
        default=None, description="Expected strings by picture name."
    )
    require_references: bool = False
    allow: list[str] = pydantic.Field(
        default_factory=list, description="Words allowed in any language, such as names."
    )
    name: str | None = None
    engine: str | None = None
    callback_url: str | None = None
    idempotency_key: str | None = None


CheckToken = Callable[[str], None]
"""Raises an error if a form's CSRF token is invalid; a missing token is passed as ""."""

FIELDS = tuple(
    name for name in JobFields.model_fields if name not in _PICTURES and name != "references"
)


async def submit_job(
    request: Request,
    check_jobs: jobs.CheckJobs,
    database: Database,
    check_token: CheckToken | None = None,
) -> jobs.QueuedJob:
    """Receive the job of a request and queue it as the user of `database`.

    `check_token` is called with the CSRF token of the form before the job is validated.
    """
    with _create_temporary_folder() as folder:
        reader = _JobReceiver(jobs.ReceivedJob(folder, check_jobs.limits), check_token)
        job = await reader.receive(request)
        if check_token is not None:
            check_token(reader.token)
        queued = await check_jobs.submit(job, database)
        structlog.contextvars.bind_contextvars(job=queued.job_id)
        return queued


@contextlib.contextmanager
def _create_temporary_folder() -> Iterator[Path]:
    """Create a folder for the files of a job; a full disk is a refusal, not a failure."""
    try:
        with tempfile.TemporaryDirectory(prefix="pagewarden-job-") as folder:
            yield Path(folder)
    except OSError as exc:
        if exc.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise RequestRejected(
            "STORE_FULL", "the disk of this server is full; try again later"
        ) from exc


@dataclass(slots=True)
class _JobReceiver:
    """Receives a job from a request."""

    job: jobs.ReceivedJob
    check_token: CheckToken | None
    fields: JobFields = field(default_factory=JobFields)
    token: str = ""
    received_bytes: int = 0

    async def receive(self, request: Request) -> jobs.ReceivedJob:
        """Read a form or JSON; problems are added to the job."""
        boundary = request_body.get_form_boundary(request)
        body = request_body.stream_body(request)
        if boundary is not None:
            await self._receive_form(request_body.MultipartForm(body, boundary))
        else:
            await self._receive_json(body)
        fields = self.fields
        reference = fields.reference
        self.job.callback_url = fields.callback_url
        self.job.options = submission.SubmissionOptions(
            language=fields.language,
            reference="\n".join(reference) if isinstance(reference, list) else reference,
            by_name=fields.references,
            references_required=fields.require_references,
            allowed=fields.allow,
            engine=fields.engine,
            title=fields.name,
            key=request.headers.get(KEY_HEADER) or fields.idempotency_key,
        )
        return self.job

    async def _receive_form(self, form: request_body.MultipartForm) -> None:
        values: dict[str, Any] = {}
        parts = 0
        async for event, value in form.events():
            if event != "part":
                continue
            parts += 1
            if parts > _MAX_PARTS:
                raise RequestRejected("INVALID_REQUEST", "the form has too many parts")
            name, file_name = value
            if file_name is None:
                self._add_field(values, name, await form.read_text())
            else:
                await self._receive_file(name, file_name.strip(), form.read_file())
        self._parse_fields(values)

    def _add_field(self, values: dict[str, Any], name: str, text: str) -> None:
        """Add a field of a form; browsers also send the empty ones, which do not count."""
        if name == CSRF_FIELD and self.check_token is not None:
            self.token = text
        elif name not in FIELDS:
            self.job.problems.add(f"unknown field {name!r}; known fields: {', '.join(FIELDS)}")
        elif name == "allow":
            words = (line.strip() for line in text.splitlines())
            values.setdefault(name, []).extend(word for word in words if word)
        elif text.strip():
            values[name] = text

    async def _receive_file(
        self, field_name: str, file_name: str, chunks: AsyncIterator[bytes]
    ) -> None:
        job = self.job
        file = submission.ReceivedFile(file_name, job.new_path())
        with file.path.open("wb") as target:
            async for chunk in chunks:
                self.received_bytes += len(chunk)
                if self.received_bytes > job.limits.job_bytes:
                    raise RequestRejected(
                        "JOB_TOO_LARGE",
                        f"a job may not exceed {job.limits.job_bytes:,} bytes; split it into "
                        "several jobs",
                    )
                target.write(chunk)
        if not file_name and not file.path.stat().st_size:
            return  # browsers send this if no file was selected
        is_archive = file_name.lower().endswith(SUFFIX)
        if field_name == _ARCHIVE or (field_name in _PICTURES and is_archive):
            job.archives.append(file)
        elif field_name in (*_PICTURES, "references"):
            job.files.append(file)
        else:
            known = ", ".join((_ARCHIVE, *_PICTURES, "references"))
            job.problems.add(f"unknown file field {field_name!r}; known fields: {known}", file_name)

    async def _receive_json(self, chunks: AsyncIterator[bytes]) -> None:
        body = bytearray()
        async for chunk in chunks:
            body += chunk
            if len(body) > JSON_MAX_BYTES:
                raise RequestRejected(
                    "JOB_TOO_LARGE",
                    f"a JSON job may not exceed {JSON_MAX_BYTES:,} bytes; use "
                    "multipart/form-data instead",
                )
        try:
            values = pydantic.TypeAdapter(dict[str, Any]).validate_json(bytes(body))
        except pydantic.ValidationError as exc:
            raise RequestRejected(
                "INVALID_REQUEST",
                "the body is neither a form nor a JSON object; send multipart/form-data with "
                "zip_file",
            ) from exc
        self._parse_fields(values)
        self._decode_images()

    def _decode_images(self) -> None:
        fields = self.fields
        single = [] if fields.image is None else [fields.image]
        references: dict[str, Any] = {}
        for number, image in enumerate((*single, *fields.images), start=1):
            encoded = EncodedImage(data=image) if isinstance(image, str) else image
            name = encoded.name or f"image-{number}"
            self._decode(name, encoded.data)
            if encoded.reference is not None:
                references[name] = encoded.reference
        if references:
            merged = {**(fields.references or {}), **references}
            self.fields = fields.model_copy(update={"references": merged})

    def _decode(self, name: str, data: str) -> None:
        _, _, encoded = data.rpartition("base64,") if data.startswith("data:") else ("", "", data)
        try:
            decoded = base64.b64decode("".join(encoded.split()), validate=True)
        except (binascii.Error, ValueError):
            self.job.problems.add("the picture is not valid base64; encode it again", name)
            return
        file = submission.ReceivedFile(name, self.job.new_path())
        file.path.write_bytes(decoded)
        self.job.files.append(file)

    def _parse_fields(self, values: Mapping[str, Any]) -> None:
        """Parse the fields; invalid ones become problems, the others count."""
        try:
            self.fields = JobFields.model_validate(values)
        except pydantic.ValidationError as exc:
            invalid = set()
            for error in exc.errors():
                location = ".".join(map(str, error["loc"][:2]))
                self.job.problems.add(f"{location}: {error['msg']}")
                invalid.add(error["loc"][0])
            valid = {name: value for name, value in values.items() if name not in invalid}
            self.fields = JobFields.model_validate(valid)
