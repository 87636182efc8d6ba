"""Archive old documents: copy their files, texts and history into a folder.

The manifest line of a document is written last, so after an interruption the document is written
again; its last line counts. document.json is the export made by the database: if both have the same
SHA-256, the archive is complete and the document can be erased from the database.
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
    from pagewarden.storage import FileStore

MANIFEST = "manifest.jsonl"
_CONTENTS = "document.json"
_ROWS = 200


@dataclass(frozen=True, slots=True)
class Archive:
    """A folder of archived documents; files maps each document to its paths and their SHA-256."""

    folder: Path
    files: dict[str, Mapping[str, str]]

    @classmethod
    def open(cls, folder: Path) -> Archive:
        """Open an archive, or create an empty one."""
        manifest = folder / MANIFEST
        try:
            folder.mkdir(parents=True, exist_ok=True)
            text = manifest.read_text("utf-8") if manifest.exists() else ""
        except OSError as exc:
            raise errors.LocalFileError(
                f"{folder} cannot be used for an archive ({exc.strerror}); choose another folder"
            ) from exc
        return cls(folder, dict(filter(None, map(_parse_manifest_line, text.splitlines()))))

    def find_sha256(self, document_id: str) -> str | None:
        """Return the SHA-256 of the document.json of an archived document.

        None if it is not archived, or if any of its files is missing or differs from the manifest.
        """
        files = self.files.get(document_id, {})
        try:
            if any(_hash_file(self.folder / path) != sha256 for path, sha256 in files.items()):
                return None
        except OSError:
            return None
        return next(
            (sha256 for path, sha256 in files.items() if Path(path).name == _CONTENTS), None
        )

    async def add(self, text: str, store: FileStore) -> int:
        """Write a document with its file, text and history; return the number of bytes.

        text is the answer of document_archive.
        """
        contents = json.loads(text)
        row: rows.Documents = contents["document"]
        folder = self.folder / row["case_id"] / row["id"]
        folder.mkdir(parents=True, exist_ok=True)
        pages = "\f".join(page["text"] or "" for page in contents["page_texts"])
        paths = [_write_file(folder / _CONTENTS, text), _write_file(folder / "text.txt", pages)]
        if stored_path := row["dropbox_path"]:
            paths.append(await _fetch_file(row, stored_path, folder, store))
        _flush_to_disk(folder)
        self._add_to_manifest(row, paths)
        return sum(path.stat().st_size for path in paths)

    def _add_to_manifest(self, row: rows.Documents, paths: list[Path]) -> None:
        files = {str(path.relative_to(self.folder)): _hash_file(path) for path in paths}
        line = {
            "document_id": row["id"],
            "case_id": row["case_id"],
            "name": row["name"],
            "files": files,
        }
        with (self.folder / MANIFEST).open("a+b") as manifest:
            if manifest.tell():
                manifest.seek(-1, os.SEEK_END)
                if manifest.read() != b"\n":  # start a new line after a truncated one
                    manifest.write(b"\n")
            text = json.dumps(line, ensure_ascii=False)
            manifest.write(text.encode() + b"\n")
            manifest.flush()
            os.fsync(manifest.fileno())
        _flush_to_disk(self.folder)
        self.files[row["id"]] = files


def _parse_manifest_line(line: str) -> tuple[str, Mapping[str, str]] | None:
    """Parse a line of the manifest; return None for a truncated one."""
    try:
        entry = json.loads(line)
        return entry["document_id"], dict(entry["files"])
    except (ValueError, KeyError, TypeError):
        return None


async def _fetch_file(row: rows.Documents, path: str, folder: Path, store: FileStore) -> Path:
    """Copy the file of a document, and verify its checksum."""
    original = folder / f"original{Path(row['name']).suffix}"
    await store.fetch(path.removeprefix("/"), original)
    _flush_to_disk(original)
    if row["sha256"] and _hash_file(original) != row["sha256"]:
        raise errors.LocalFileError("the stored file differs from the uploaded one; investigate")
    return original


async def list_old_documents(
    database: Database, before: dt.datetime, case_id: str | None
) -> AsyncIterator[rows.ListedDocument]:
    """Yield completed documents uploaded before a time, newest first.

    Pictures of check jobs are skipped, because they belong to their jobs.
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


def _write_file(path: Path, text: str) -> Path:
    """Write a file atomically."""
    part = path.with_name(f".{path.name}.part")
    part.write_bytes(text.encode())
    _flush_to_disk(part)
    return part.replace(path)


def _flush_to_disk(path: Path) -> None:
    """Flush a file, or the entries of a folder, to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _hash_file(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
