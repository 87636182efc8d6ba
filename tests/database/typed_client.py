"""What mypy must refuse. Nothing here runs: `make lint` fails when one of these is no error.

An ignore without an error under it is itself an error (warn_unused_ignores).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pagewarden.database import tables

if TYPE_CHECKING:
    from pagewarden.database import Database


async def misspelt_function(database: Database) -> None:
    """There is no claim_document."""
    await database.claim_document(worker_id="w")  # type: ignore[attr-defined]


async def wrong_parameter(database: Database) -> None:
    """The parameter is worker_id."""
    await database.claim_documents(worker="w")  # type: ignore[call-arg]


async def wrong_type_of_a_parameter(database: Database) -> None:
    """Lanes are a list."""
    await database.claim_documents(worker_id="w", lanes=5)  # type: ignore[arg-type]


async def wrong_column_of_an_answer(database: Database) -> str:
    """The column is lock_token."""
    (row,) = await database.claim_documents(worker_id="w")
    return str(row["token"])  # type: ignore[typeddict-item]


async def wrong_column_of_a_table(database: Database) -> str:
    """The column is name."""
    (row,) = await database.select(tables.documents)
    return str(row["title"])  # type: ignore[typeddict-item]


async def misspelt_table(database: Database) -> None:
    """The table is documents."""
    await database.select(tables.document)  # type: ignore[attr-defined]
