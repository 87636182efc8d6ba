"""Uploads in two steps: the caller uploads a file to a signed address, then confirms it.

The file is staged outside the folders of cases, in which no address ever gives access. A
confirmation copies it to the path of its document and checks the copy, so that the address, which
may still be valid, cannot change what was checked. Retention removes staged files.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import functools
import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pagewarden import concurrency
from pagewarden import database as databases
from pagewarden.database import tables
from pagewarden.documents import upload
from pagewarden.errors import EmptyFile, FileNotFound, FileTooLarge, RequestRejected
from pagewarden.ocr import file_types
from pagewarden.storage import base, upload_tokens
from pagewarden.telemetry import tracing

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from pagewarden.database import Database, rows
    from pagewarden.web.upload_form import RequestedUpload

ADDRESS_SECONDS = 3600
CONFIRM_SECONDS = 24 * 3600

_NOT_UPLOADED = "NOT_UPLOADED"
_MISMATCH = "UPLOAD_MISMATCH"
# After these, the staged file is useless.
_CONTENT_REJECTED = frozenset({_MISMATCH, "FORBIDDEN_TYPE"})


def get_staged_path(upload_id: str) -> str:
    """Return the path of the staged file of an upload."""
    return f"uploads/{upload_id}"


@dataclass(frozen=True, slots=True)
class SignedUpload:
    """The address of an upload, and until when it can be used and the upload confirmed."""

    upload_id: str
    address: base.UploadAddress
    expires_at: dt.datetime
    confirm_before: dt.datetime


@dataclass(frozen=True, slots=True)
class PendingUploads:
    """Signs upload addresses, and turns the uploaded files into documents."""

    uploader: upload.Uploader
    secret_key: str

    async def request(
        self, file: RequestedUpload, database: Database, *, is_service: bool
    ) -> SignedUpload:
        """Record an upload as the user of `database`, or as a service, and sign its address."""
        fields = file.fields
        self.uploader.check_callback_url(fields)
        self._check_size(file)
        case_id = await upload.resolve_case(fields, database, is_service=is_service)
        answer = await database.request_upload(
            case_id=case_id,
            document_name=file.safe_name,
            sha256=file.sha256,
            size_bytes=file.size,
            engine=fields.get("engine"),
            language=fields.get("language"),
            profile=fields.get("profile"),
            callback_url=fields.get("callback_url"),
            seconds=CONFIRM_SECONDS,
        )
        grant = upload_tokens.UploadGrant(
            get_staged_path(answer["upload_id"]), file.size, file.sha256
        )
        confirm_before = dt.datetime.fromisoformat(answer["expires_at"])
        return SignedUpload(
            answer["upload_id"],
            await self._sign(grant),
            confirm_before - dt.timedelta(seconds=CONFIRM_SECONDS - ADDRESS_SECONDS),
            confirm_before,
        )

    async def confirm(self, upload_id: str, database: Database) -> upload.UploadedDocument:
        """Check an uploaded file and create its document; repeated calls return the same one."""
        began = tracing.now()
        pending = await _find_upload(database, upload_id)
        if pending["document_id"] is None:
            try:
                return await self._create_document(pending, database, began)
            except RequestRejected as exc:
                # A concurrent confirmation may have removed the staged file when it was done.
                if exc.code != _NOT_UPLOADED:
                    raise
                if (await _find_upload(database, upload_id))["document_id"] is None:
                    raise
        return _to_document(await database.confirm_upload(upload_id=upload_id))

    async def get_origin(self) -> str | None:
        """Return the origin to which browsers upload files, if it is not this server."""
        return await self.uploader.store.get_upload_origin()

    def _check_size(self, file: RequestedUpload) -> None:
        limit = self.uploader.settings.upload_max_bytes
        if file.size == 0:
            raise EmptyFile(f"{file.safe_name} is empty")
        if file.size > limit:
            raise FileTooLarge(
                f"the file has more than {limit} bytes; send a smaller one, or split it",
                limit=limit,
            )

    async def _sign(self, grant: upload_tokens.UploadGrant) -> base.UploadAddress:
        """Return an address of the store, or else of this server, whose URL is then relative."""
        store = self.uploader.store
        address = None
        if store.has_public_urls:
            address = await store.create_upload_address(
                grant.path, size=grant.size, sha256=grant.sha256, seconds=ADDRESS_SECONDS
            )
        if address is None:
            url = upload_tokens.UploadSigner(self.secret_key).make_url(grant, ADDRESS_SECONDS)
            address = base.UploadAddress(url, "PUT", {"Content-Type": "application/octet-stream"})
        return address

    async def _create_document(
        self, pending: rows.PendingUploads, database: Database, began: int
    ) -> upload.UploadedDocument:
        store, staged = self.uploader.store, get_staged_path(pending["id"])
        path = upload.make_path(pending["case_id"], pending["name"])
        async with _delete_rejected(store, staged):
            await self._copy(staged, path, pending)
            async with base.delete_on_failure(store, [path]):
                head = await self._check_content(path, pending)
                file_type = upload.FileType.detect(pending["name"], head)
                create_version = functools.partial(
                    database.confirm_upload,
                    upload_id=pending["id"],
                    new_dropbox_path=path,
                    file_extension=file_type.extension,
                    ocr_status=file_type.ocr_status,
                    lane=file_type.lane,
                    mime_type=file_type.media_type,
                )
                answer = await databases.retry_on_conflict(
                    create_version, database=database, case_id=pending["case_id"]
                )
                document = _to_document(answer)
        upload.record_upload(document, file_type.lane, pending["size_bytes"], began)
        # Identical to an earlier file, or confirmed twice at the same time.
        await self.uploader.discard_duplicate(document.document_id, path)
        await base.delete_files(store, [staged])
        return document

    async def _copy(self, staged: str, path: str, pending: rows.PendingUploads) -> None:
        """Copy a staged file of the announced size to the path of its document."""
        store = self.uploader.store
        missing = RequestRejected(
            _NOT_UPLOADED,
            "no file has arrived at the address of this upload; upload it, then confirm again",
        )
        entry = await store.stat(staged)
        if entry is None:
            raise missing
        if entry.size != pending["size_bytes"]:
            raise RequestRejected(
                _MISMATCH,
                f"{entry.size} bytes were uploaded instead of {pending['size_bytes']}, and were "
                "removed; request another address and upload the file again",
            )
        try:
            await store.copy(staged, path)
        except FileNotFound as exc:
            raise missing from exc

    async def _check_content(self, path: str, pending: rows.PendingUploads) -> bytes:
        """Return the first bytes of a file if its digest is the announced one."""
        sha256, head = hashlib.sha256(), b""
        async with contextlib.aclosing(self.uploader.store.read(path)) as chunks:
            async for chunk in chunks:
                head += chunk[: file_types.HEAD_BYTES - len(head)]
                await concurrency.run_in_thread(sha256.update, chunk)
        if sha256.hexdigest() != pending["sha256"]:
            raise RequestRejected(
                _MISMATCH,
                f"the uploaded file has the SHA-256 {sha256.hexdigest()} instead of "
                f"{pending['sha256']}, and was removed; request another address and upload the "
                "file again",
            )
        return head


async def _find_upload(database: Database, upload_id: str) -> rows.PendingUploads:
    found = await database.select(tables.pending_uploads, where={"id": upload_id})
    if not found:
        raise _make_not_found()
    return found[0]


def _make_not_found() -> RequestRejected:
    return RequestRejected(
        "UPLOAD_NOT_FOUND",
        "there is no such upload, or its time is over; request another address and upload the "
        "file again",
    )


@contextlib.asynccontextmanager
async def _delete_rejected(store: base.FileStore, staged: str) -> AsyncIterator[None]:
    """Delete a staged file whose content is refused; after other errors it can be confirmed."""
    try:
        yield
    except RequestRejected as exc:
        if exc.code in _CONTENT_REJECTED:
            await base.delete_files(store, [staged])
        raise


def _to_document(answer: rows.ConfirmUploadAnswer) -> upload.UploadedDocument:
    if answer["document"] is None:
        raise _make_not_found()
    return upload.UploadedDocument(**answer["document"])
