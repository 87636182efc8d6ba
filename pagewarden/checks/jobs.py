"""Validate a received check job, store its pictures, and queue it."""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pagewarden import database as databases
from pagewarden import errors
from pagewarden.checks import submission
from pagewarden.checks.rules import languages
from pagewarden.checks.zip_archive import unpack
from pagewarden.notifications import webhooks
from pagewarden.storage import base, make_safe_name
from pagewarden.telemetry import metrics

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from pagewarden.database import Database
    from pagewarden.settings import Settings
    from pagewarden.storage.base import FileStore

_CONCURRENT_WRITES = 8


@dataclass(slots=True)
class ReceivedJob:
    """A received job: its files in a temporary folder, and the problems found so far."""

    folder: Path
    limits: submission.JobLimits
    options: submission.SubmissionOptions = field(default_factory=submission.SubmissionOptions)
    callback_url: str | None = None
    files: list[submission.ReceivedFile] = field(default_factory=list)
    archives: list[submission.ReceivedFile] = field(default_factory=list)
    problems: submission.ProblemCollector = field(default_factory=submission.ProblemCollector)

    def new_path(self) -> Path:
        """Return the path of a file that does not exist yet."""
        return self.folder / f"part-{uuid.uuid4()}"

    def validate(self, default_language: str | None) -> submission.Submission:
        """Unpack archives and validate everything; this may take seconds for a large job."""
        files = [*self.files, *self._unpack_archives()]
        options = self.options
        if not options.language:
            options = dataclasses.replace(options, language=default_language)
        return submission.validate_submission(files, options, self.limits, self.problems)

    def _unpack_archives(self) -> list[submission.ReceivedFile]:
        """Unpack all archives; the limits apply to all of them together."""
        files: list[submission.ReceivedFile] = []
        remaining = self.limits
        for number, archive in enumerate(self.archives):
            folder = self.folder / f"archive-{number}"
            folder.mkdir()
            unpacked = unpack(archive, folder, remaining, self.problems)
            size = sum(file.path.stat().st_size for file in unpacked)
            remaining = dataclasses.replace(remaining, job_bytes=remaining.job_bytes - size)
            files += unpacked
            if len(files) > remaining.entries:
                self.problems.add(f"the archives contain more than {remaining.entries:,} files")
                break
        return files


@dataclass(frozen=True, slots=True)
class QueuedJob:
    """A job in the queue; `existing` if its idempotency key was used for the same job before."""

    job_id: str
    existing: bool


@dataclass(frozen=True, slots=True)
class CheckJobs:
    """Validates, stores and queues check jobs."""

    service_database: Database
    store: FileStore
    settings: Settings
    has_webhooks: bool

    @property
    def limits(self) -> submission.JobLimits:
        """Limits of a job."""
        return submission.JobLimits(
            self.settings.check_max_images,
            self.settings.check_max_image_bytes,
            self.settings.check_max_job_bytes,
        )

    @property
    def default_language(self) -> str | None:
        """Default language code of jobs; None: do not check the language."""
        code = self.settings.check_language
        return languages.find_language(code).code if code else None

    async def submit(self, job: ReceivedJob, database: Database) -> QueuedJob:
        """Validate, store and queue a job as the user of `database`; refused jobs store nothing."""
        if job.callback_url is not None:
            try:
                webhooks.check_callback_url(
                    job.callback_url,
                    webhooks_enabled=self.has_webhooks,
                    allow_any_address=self.settings.webhooks_anywhere,
                )
            except errors.RequestRejected as exc:
                job.problems.add(str(exc))
        valid = await asyncio.to_thread(job.validate, self.settings.check_language)
        job_id = str(uuid.uuid4())
        paths = _make_paths(valid, job_id)
        async with base.delete_on_failure(self.store, paths.values()):
            await self._store_pictures(valid, paths)
            queue = functools.partial(
                database.submit_check_job,
                job_id=job_id,
                language=valid.language.code if valid.language else None,
                reading_language=valid.language.ocr_code if valid.language else None,
                images=[_to_row(picture, paths[picture.sha256]) for picture in valid.pictures],
                allowed=list(valid.options.allowed),
                name=valid.options.title,
                engine=valid.options.engine,
                seconds=round(self.settings.check_job_seconds),
                callback_url=job.callback_url,
                idempotency_key=valid.options.key,
                request_digest=valid.digest if valid.options.key else None,
            )
            answer = await databases.retry_on_conflict(queue, database=self.service_database)
            if answer["error"]:
                raise errors.RequestRejected(answer["error"], answer["message"] or answer["error"])
        metrics.current().uploads.labels("check").inc(len(valid.pictures))
        metrics.current().upload_bytes.inc(sum(picture.size for picture in valid.pictures))
        if answer["existing"]:
            await base.delete_files(self.store, paths.values())
        return QueuedJob(answer["job_id"], existing=bool(answer["existing"]))

    async def _store_pictures(
        self, valid_submission: submission.Submission, paths: Mapping[str, str]
    ) -> None:
        slots = asyncio.Semaphore(_CONCURRENT_WRITES)
        pictures = {picture.sha256: picture for picture in valid_submission.pictures}

        async def write(sha256: str, picture: submission.Picture) -> None:
            async with slots:
                await self.store.write(paths[sha256], _read_file(picture.path))

        # All writes end before the first failure is raised, because the caller then deletes.
        results = await asyncio.gather(
            *(write(*entry) for entry in pictures.items()), return_exceptions=True
        )
        for result in results:
            if isinstance(result, BaseException):
                raise result


def _make_paths(valid_submission: submission.Submission, job_id: str) -> dict[str, str]:
    """Return the path of each picture by its digest: the same content is stored once."""
    upload = uuid.uuid4()
    return {
        picture.sha256: f"{job_id}/{upload}/{number}-{make_safe_name(Path(picture.name).name)}"
        for number, picture in reversed(list(enumerate(valid_submission.pictures, start=1)))
    }


async def _read_file(path: Path) -> AsyncIterator[bytes]:
    yield await asyncio.to_thread(path.read_bytes)  # a few megabytes at most


def _to_row(picture: submission.Picture, path: str) -> dict[str, Any]:
    return {
        "name": picture.name,
        "dropbox_path": path,
        "sha256": picture.sha256,
        "size_bytes": picture.size,
        "mime_type": f"image/{picture.kind}",
        "file_extension": picture.kind,
        "reference": list(picture.reference) if picture.reference is not None else None,
    }
