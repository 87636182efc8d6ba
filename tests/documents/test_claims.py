"""A lease is obtained by claiming from the queue, by locking one document, or from a dispatcher."""

from __future__ import annotations

import asyncio
import uuid
from typing import TYPE_CHECKING

import pytest

from pagewarden import errors
from pagewarden.documents import lease
from tests.documents import readers

if TYPE_CHECKING:
    from pagewarden.documents import Claim


async def acquire(desk: readers.Desk, document: object) -> Claim:
    """Lock one document."""
    return await lease.acquire_claim(desk.link, str(document), worker_id="w", lock_seconds=20)


async def test_a_known_document_is_locked_and_read_under_that_lock(desk: readers.Desk) -> None:
    """It need not be the next one of the queue."""
    await desk.factory.queued()
    document = await desk.factory.queued()

    claim = await acquire(desk, document)
    outcome = await desk.worker(readers.Recorder()).process(claim, asyncio.Event())

    assert outcome == "completed"
    row = await desk.row(document)
    assert (row["ocr_status"], row["attempts"]) == ("completed", 1)


async def test_a_document_is_handed_over_with_its_token(desk: readers.Desk) -> None:
    """Whoever has the token has the lease; there is one attempt."""
    document = await desk.factory.queued()
    claim = await acquire(desk, document)

    adopted = await lease.adopt_claim(desk.link, claim.id, claim.lock_token)

    assert adopted == claim
    outcome = await desk.worker(readers.Recorder()).process(adopted, asyncio.Event())
    assert outcome == "completed"
    assert (await desk.row(document))["attempts"] == 1


async def test_a_refused_lock_says_why(desk: readers.Desk) -> None:
    """The code of the database is that of the error."""
    document = await desk.factory.queued()
    await acquire(desk, document)
    for wanted, code in ((document, "DOCUMENT_LOCKED"), (uuid.uuid4(), "DOCUMENT_NOT_FOUND")):
        with pytest.raises(errors.RequestRejected) as caught:
            await acquire(desk, wanted)
        assert caught.value.code == code
        assert str(caught.value)
    with pytest.raises(errors.RequestRejected) as caught:
        await lease.adopt_claim(desk.link, str(document), str(uuid.uuid4()))
    assert caught.value.code == "LOCK_LOST"


async def test_a_dispatcher_gives_back_what_it_could_not_hand_over(desk: readers.Desk) -> None:
    """Uncounted, with the calls of the same lease."""
    document = await desk.factory.queued()
    held = lease.DocumentLease(await acquire(desk, document), desk.link, lock_seconds=20)

    await held.renew()
    assert await held.release("nobody answered", outage=False) == "given_back"

    row = await desk.row(document)
    assert (row["ocr_status"], row["attempts"], row["lock_token"]) == ("queued", 0, None)
    for call in (held.renew(), held.release("again", outage=False)):
        with pytest.raises(errors.LockLost):
            await call
