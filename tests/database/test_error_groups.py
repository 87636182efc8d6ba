"""The same fault is one group, whatever differs in the words about it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.database import factories, queries

if TYPE_CHECKING:
    from tests.support import databases


async def test_names_ids_numbers_and_paths_make_no_groups(database: databases.Database) -> None:
    """Our own messages begin with the name of the file; services put ids and paths into theirs."""
    factory = await factories.Factory.of(database)
    for number in range(3):
        claim = await factory.claimed()
        (row,) = await queries.rows(
            factory.conn, "select name from documents where id = %s", [claim.document_id]
        )
        await factory.call(
            "move_to_dead_letter_queue",
            p_document_id=claim.document_id,
            p_error_message=f"{row['name']}: page {number} of /tmp/x{number}/y is damaged",
            p_lock_token=claim.lock_token,
        )
    await factory.dead_letter(error="something else")
    groups = await queries.rows(
        factory.conn,
        "select error_group, count(*) as letters from ocr_dead_letter group by 1 order by 2",
    )
    assert [group["letters"] for group in groups] == [1, 3]
    assert groups[1]["error_group"] == "<name>: page <n> of <path> is damaged"
