"""Put old documents away: their files, texts and history into a folder, then out of the database.

A document is in the archive when the manifest has its line, which is written last; what was cut off
in the middle is written anew. Nothing is erased before its line is on disk.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pagewarden import errors

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import AsyncIterator, Mapping

    from pagewarden.database import Database
    from pagewarden.files import FileStore

MANIFEST = "manifest.jsonl"
_ROWS = 200
_HISTORY = ("ocr_processing_logs", "ocr_errors", "page_texts")


@dataclass(frozen=True, slots=True)
class Archive:
    """A folder of documents that were put away; known are those its manifest has."""

    folder: Path
    known: frozenset[str]

    @classmethod
    def open(cls, folder: Path) -> Archive:
        """Open an archive, or begin one."""
        manifest = folder / MANIFEST
        try:
            folder.mkdir(parents=True, exist_ok=True)
            lines = manifest.read_text("utf-8").splitlines() if manifest.exists() else []
        except OSError as exc:
            raise errors.LocalFileError(
                f"{folder} cannot be used for an archive ({exc.strerror}); name another folder"
            ) from exc
        return cls(folder, frozenset(filter(None, map(_id_of, lines))))

    async def put(self, document: Mapping[str, Any], database: Database, store: FileStore) -> int:
        """Write a document with its file, text and history; tells how many bytes that is."""
        place = self.folder / document["case_id"] / document["document_id"]
        place.mkdir(parents=True, exist_ok=True)
        (row,) = await database.select("documents", where={"id": document["document_id"]})
        contents = {"document": row} | await _history(database, document["document_id"])
        texts = [page["text"] or "" for page in contents["page_texts"]]
        written = [
            _write(place / "document.json", json.dumps(contents, ensure_ascii=False, indent=1)),
            _write(place / "text.txt", "\f".join(texts)),
        ]
        if row["dropbox_path"]:
            original = place / f"original{Path(row['name']).suffix}"
            await store.fetch(row["dropbox_path"].removeprefix("/"), original)
            written.append(original)
        self._note(document, written)
        return sum(path.stat().st_size for path in written)

    def _note(self, document: Mapping[str, Any], written: list[Path]) -> None:
        line = {
            "document_id": document["document_id"],
            "case_id": document["case_id"],
            "name": document["name"],
            "files": {str(path.relative_to(self.folder)): _digest(path) for path in written},
        }
        with (self.folder / MANIFEST).open("a", encoding="utf-8") as manifest:
            manifest.write(json.dumps(line, ensure_ascii=False) + "\n")
            manifest.flush()
            os.fsync(manifest.fileno())


def _id_of(line: str) -> str | None:
    """Read a line of the manifest; one that was cut off is none."""
    with contextlib.suppress(ValueError, KeyError, TypeError):
        found: str = json.loads(line)["document_id"]
        return found
    return None


async def old_documents(
    database: Database, before: dt.datetime, case_id: str | None
) -> AsyncIterator[Mapping[str, Any]]:
    """Go through documents that were uploaded before then and have been read, the newest first."""
    wanted = {"p_case_id": case_id} if case_id else {}
    place: dict[str, Any] = {"p_before": before.isoformat()}
    while rows := await database.rpc(
        "list_documents", p_status="completed", p_limit=_ROWS, **wanted, **place
    ):
        for row in rows:
            yield row
        place = {"p_before": rows[-1]["created_at"], "p_before_id": rows[-1]["document_id"]}


async def _history(database: Database, document_id: str) -> dict[str, Any]:
    where = {"document_id": document_id}
    found: dict[str, Any] = {table: await database.select(table, where=where) for table in _HISTORY}
    found["page_texts"].sort(key=lambda page: page["page_number"])
    return found


def _write(path: Path, text: str) -> Path:
    with path.open("w", encoding="utf-8", errors="replace") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    return path


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
