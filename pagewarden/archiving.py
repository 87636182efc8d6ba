"""Archive old documents: their files, texts and history in a folder, then out of the database.

A document is in the archive when the manifest has its line, which is written last; what was cut off
in the middle is written again. The last line of a document counts. document.json is the text that
the database made of it: as long as both have the same SHA-256, nothing is missing in the archive.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pagewarden import errors

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import AsyncIterator, Mapping

    from pagewarden.database import Database, rows
    from pagewarden.files import FileStore

MANIFEST = "manifest.jsonl"
_CONTENTS = "document.json"
_ROWS = 200


@dataclass(frozen=True, slots=True)
class Archive:
    """A folder of archived documents; files are those of each, with their SHA-256."""

    folder: Path
    files: dict[str, Mapping[str, str]]

    @classmethod
    def open(cls, folder: Path) -> Archive:
        """Open an archive, or begin one."""
        manifest = folder / MANIFEST
        try:
            folder.mkdir(parents=True, exist_ok=True)
            text = manifest.read_text("utf-8") if manifest.exists() else ""
        except OSError as exc:
            raise errors.LocalFileError(
                f"{folder} cannot be used for an archive ({exc.strerror}); name another folder"
            ) from exc
        return cls(folder, dict(filter(None, map(_parse, text.splitlines()))))

    def sha256_of(self, document_id: str) -> str | None:
        """Give the SHA-256 of what the archive has of a document.

        None when it has none, or when a file is not there as the manifest says.
        """
        files = self.files.get(document_id, {})
        try:
            if any(_sha256(self.folder / path) != sha256 for path, sha256 in files.items()):
                return None
        except OSError:
            return None
        return next(
            (sha256 for path, sha256 in files.items() if Path(path).name == _CONTENTS), None
        )

    async def put(self, text: str, store: FileStore) -> int:
        """Write a document with its file, text and history; tells how many bytes that is.

        text is what document_archive returned of it.
        """
        contents = json.loads(text)
        row: rows.Documents = contents["document"]
        place = self.folder / row["case_id"] / row["id"]
        place.mkdir(parents=True, exist_ok=True)
        pages = "\f".join(page["text"] or "" for page in contents["page_texts"])
        written = [_write(place / _CONTENTS, text), _write(place / "text.txt", pages)]
        if path := row["dropbox_path"]:
            written.append(await _fetch(row, path, place, store))
        _sync(place)
        self._record(row, written)
        return sum(path.stat().st_size for path in written)

    def _record(self, row: rows.Documents, written: list[Path]) -> None:
        files = {str(path.relative_to(self.folder)): _sha256(path) for path in written}
        line = {
            "document_id": row["id"],
            "case_id": row["case_id"],
            "name": row["name"],
            "files": files,
        }
        with (self.folder / MANIFEST).open("a+b") as manifest:
            if manifest.tell():
                manifest.seek(-1, os.SEEK_END)
                if manifest.read() != b"\n":  # a line that was cut off must not spoil this one
                    manifest.write(b"\n")
            text = json.dumps(line, ensure_ascii=False)
            manifest.write(text.encode() + b"\n")
            manifest.flush()
            os.fsync(manifest.fileno())
        _sync(self.folder)
        self.files[row["id"]] = files


def _parse(line: str) -> tuple[str, Mapping[str, str]] | None:
    """Read a line of the manifest; one that was cut off is none."""
    try:
        found = json.loads(line)
        return found["document_id"], dict(found["files"])
    except (ValueError, KeyError, TypeError):
        return None


async def _fetch(row: rows.Documents, path: str, place: Path, store: FileStore) -> Path:
    """Copy the file of a document, and make sure that it is the one that was uploaded."""
    original = place / f"original{Path(row['name']).suffix}"
    await store.fetch(path.removeprefix("/"), original)
    _sync(original)
    if row["sha256"] and _sha256(original) != row["sha256"]:
        raise errors.LocalFileError("the stored file is not the one that was uploaded; see to it")
    return original


async def old_documents(
    database: Database, before: dt.datetime, case_id: str | None
) -> AsyncIterator[rows.ListedDocument]:
    """Go through documents that were uploaded before then and have been read, the newest first.

    Pictures of check jobs stay with their jobs.
    """
    created_at, document_id = before.isoformat(), None
    while found := await database.list_documents(
        case_id=case_id or None,
        status="completed",
        before=created_at,
        before_id=document_id,
        limit=_ROWS,
    ):
        for row in found:
            if row["lane"] != "check":
                yield row
        created_at, document_id = found[-1]["created_at"], found[-1]["document_id"]


def _write(path: Path, text: str) -> Path:
    """Write a file that is there whole, or as it was before."""
    part = path.with_name(f".{path.name}.part")
    part.write_bytes(text.encode())
    _sync(part)
    return part.replace(path)


def _sync(path: Path) -> None:
    """Have a file, or the names in a folder, on the disk."""
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
