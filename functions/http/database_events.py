"""Database Webhooks of Supabase: the payload, and which events concern a worker function."""

from __future__ import annotations

import datetime as dt
import uuid
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, Field

from pagewarden.database import tables
from pagewarden.errors import RequestRejected

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pagewarden.database import Database

QUEUED = ("queued", "queued_for_pdf")


class DatabaseEvent(BaseModel):
    """The documented payload of a Database Webhook; only the id of its record is trusted."""

    type: Literal["INSERT", "UPDATE", "DELETE"]
    table: str
    table_schema: str = Field(alias="schema")
    record: dict[str, Any] | None = None

    def describe(self) -> str:
        """Return what happened to which table."""
        return f"{self.type} on {self.table_schema}.{self.table}"

    def get_document_id(self) -> str | None:
        """Return the id of the document, None if the event is not about one."""
        if (self.table_schema, self.table) != ("public", "documents") or self.record is None:
            return None
        try:
            return str(uuid.UUID(self.record["id"]))
        except (KeyError, ValueError, TypeError, AttributeError) as exc:
            raise RequestRejected("INVALID_REQUEST", "record.id is not a UUID") from exc


async def find_obstacle(database: Database, document_id: str, lanes: Sequence[str]) -> str | None:
    """Return why a worker of these lanes does not read a document now; None if it does."""
    rows = await database.select(
        tables.documents, columns="lane,ocr_status,retry_at", where={"id": document_id}
    )
    if not rows:
        return "there is no such document"
    row = rows[0]
    if row["lane"] not in lanes:
        return f"this function does not read lane {row['lane']}"
    if row["ocr_status"] not in QUEUED:
        return f"the document is {row['ocr_status']}, not queued"
    retry_at = row["retry_at"]
    if retry_at is not None and dt.datetime.fromisoformat(retry_at) > dt.datetime.now(dt.UTC):
        return f"its next attempt is due at {retry_at}"
    return None
