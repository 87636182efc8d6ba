"""A database whose clock the test holds, and which tells what its alerts told."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from tests.database import factories, queries

if TYPE_CHECKING:
    import uuid
    from collections.abc import Callable

    import psycopg

    from tests.support import databases

START = datetime(2030, 1, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
TOKEN = "00000000-0000-0000-0000-000000000001"


@dataclass(slots=True)
class Watch:
    """A database whose clock the test holds."""

    database: databases.Database
    conn: psycopg.AsyncConnection
    factory: factories.Factory
    now: datetime = START
    case: uuid.UUID | None = None
    counter: int = 0
    told: list[str] = field(default_factory=list)

    @classmethod
    async def of(cls, database: databases.Database) -> Watch:
        """Watch an empty database, from noon of a day to come."""
        conn = await database.connect("supabase_admin", claims={"role": "service_role"})
        await conn.execute("update alert_rules set enabled = true")
        factory = await factories.Factory.of(database)
        return cls(database, conn, factory, case=await factory.case())

    async def run(self, query: str, *params: object) -> None:
        """Change something, with all rights."""
        await self.conn.execute(query.encode(), params)

    async def pass_time(
        self, minutes: int, each: Callable[[], Any] | None = None
    ) -> list[tuple[int, str]]:
        """Evaluate minute by minute; tells which notices came after how many minutes."""
        told = []
        for minute in range(1, minutes + 1):
            self.now += MINUTE
            if each is not None:
                await each()
            await self.run("select public.evaluate_alerts(%s)", self.now)
            told += [(minute, notice) for notice in await self.news()]
        return told

    async def news(self) -> list[str]:
        """Take what has to be told since the last time."""
        rows = await queries.rows(
            self.conn, "select * from public.claim_alert_notices(100, 3600, %s)", (self.now,)
        )
        for row in rows:
            await self.run("select public.settle_alert_notice(%s, 1, null, true)", row["id"])
        return sorted(
            f"{row['body']['rule']} {row['body']['kind']} {row['channel']}" for row in rows
        )

    async def open(self) -> list[str]:
        """Name the rules whose alert is open."""
        query = "select rule from alerts where resolved_at is null order by rule"
        return [row["rule"] for row in await queries.rows(self.conn, query)]

    async def document(self, **values: Any) -> None:
        """Have a document of this kind, with results or errors around it."""
        self.counter += 1
        columns = {"case_id": self.case, "name": f"d{self.counter}", "lane": "image"} | values
        names = ", ".join(columns)
        marks = ", ".join(["%s"] * len(columns))
        await self.run(f"insert into documents ({names}) values ({marks})", *columns.values())

    async def result(self, milliseconds: int = 1000, retry_count: int = 0, count: int = 1) -> None:
        """Have something been read just now, after so many failed attempts."""
        await self.run(
            "insert into ocr_processing_logs (document_id, ocr_data, processing_time_ms, "
            "retry_count, seconds_to_text, created_at) "
            "select gen_random_uuid(), '{}', %s, %s, 1, %s from generate_series(1, %s)",
            milliseconds, retry_count, self.now, count,
        )  # fmt: skip

    async def failure(self, kind: str = "failure") -> None:
        """Have an attempt failed just now."""
        await self.run(
            "insert into ocr_errors (kind, error_message, created_at) values (%s, 'x', %s)",
            kind, self.now,
        )  # fmt: skip

    async def stuck(self, count: int) -> None:
        """Have so many documents in hand for a quarter of an hour."""
        await self.run("delete from documents")
        for _ in range(count):
            await self.claimed(self.now - timedelta(minutes=15))

    async def claimed(self, since: datetime) -> None:
        """Have a document in hand since then; its worker renews the lock no more."""
        await self.document(
            ocr_status="processing", claimed_at=since, locked_by="w", locked_at=self.now,
            lock_token=TOKEN, lock_expires_at=self.now + MINUTE,
            attempt_deadline=self.now + 60 * MINUTE, version=self.counter + 1,
        )  # fmt: skip
        await self.run(
            "insert into private.claims (id, claimed_at, document_ids) "
            "select gen_random_uuid(), now(), array[id] from documents where name = %s",
            f"d{self.counter}",
        )

    async def dead_letters(self, count: int, *, attempts: int = 3) -> None:
        """Have so many documents given up just now, after so many failed attempts each."""
        for _ in range(count):
            letter = await self.factory.dead_letter(self.case)
            await self.run(
                "update ocr_dead_letter set last_failed_at = %s where id = %s",
                self.now, letter.dlq_id,
            )  # fmt: skip
            await self.run(
                "update documents set attempts = %s, retry_count = %s where id = %s",
                attempts, attempts, letter.document_id,
            )  # fmt: skip
        await self.run("delete from tasks")
