"""retention: files of erased documents go, and no others."""

from __future__ import annotations

import os
import time
import uuid
from typing import TYPE_CHECKING

import structlog

from pagewarden import errors
from pagewarden.storage import local_disk
from tests.functions import house

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from tests.functions.house import House

TWO_HOURS = 7200


def _age(path: Path) -> None:
    then = time.time() - TWO_HOURS
    os.utime(path, (then, then))


def _unknown(functions: House, *, folder: str | None = None) -> Path:
    path = functions.folder / (folder or f"{uuid.uuid4()}/{uuid.uuid4()}") / "scan.png"
    path.parent.mkdir(parents=True)
    path.write_bytes(house.PNG)
    return path


async def test_the_file_of_an_erased_document_is_removed(functions: House) -> None:
    """The list is empty afterwards, and calling it again does nothing."""
    user = await functions.factory.user()
    document = (await functions.upload(user, house.PNG)).json()["document_id"]
    assert (await functions.serve("retention")).json()["erased"] == 0
    await functions.factory.call("erase_document", p_document_id=document)
    assert len(functions.stored()) == 1
    assert (await functions.serve("retention")).json()["erased"] == 1
    assert functions.stored() == []
    assert (await functions.serve("retention")).json()["erased"] == 0


async def test_a_file_that_no_document_names_is_reported_and_stays(functions: House) -> None:
    """The database may be a new one; within an hour the file may still get its document."""
    old, new = _unknown(functions), _unknown(functions)
    _age(old)
    os.utime(new, (time.time(), time.time()))  # the kernel's clock may be another than ours
    with structlog.testing.capture_logs() as logs:
        cleaned = (await functions.serve("retention")).json()
    assert (cleaned["unknown_files"], cleaned["unknown_bytes"]) == (1, len(house.PNG))
    assert set(functions.stored()) == {old, new}
    (line,) = (line for line in logs if line["event"] == "unknown_files_found")
    assert line["first"] == [old.relative_to(functions.folder).as_posix()]


async def test_files_of_documents_and_of_others_stay_however_old_they_are(
    functions: House,
) -> None:
    """Also of a document in the bin; what no upload wrote is not ours."""
    user = await functions.factory.user()
    kept = (await functions.upload(user, house.PNG, "kept.png")).json()["document_id"]
    binned = (await functions.upload(user, house.PDF, "binned.pdf")).json()["document_id"]
    await functions.factory.call("delete_document", p_document_id=binned)
    _unknown(functions, folder="backups")
    for path in functions.stored():
        _age(path)
    assert set((await functions.serve("retention")).json().values()) == {0}
    assert len(functions.stored()) == 3
    assert {row["id"] for row in await functions.documents()} == {kept, binned}


async def test_a_file_that_cannot_be_removed_stays_on_the_list(
    functions: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is tried again the next time, and holds up no other."""
    user = await functions.factory.user()
    for name in ("a.png", "b.png"):
        document = (await functions.upload(user, house.PNG, name)).json()["document_id"]
        await functions.factory.call("erase_document", p_document_id=document)
    delete = local_disk.LocalFileStore.delete

    async def refuse_one(store: local_disk.LocalFileStore, path: str) -> bool:
        if path.endswith("a.png"):
            raise errors.StoreUnavailable("the disk does not answer")
        return await delete(store, path)

    with monkeypatch.context() as patch:
        patch.setattr(local_disk.LocalFileStore, "delete", refuse_one)
        for path in functions.stored():
            _age(path)
        cleaned = (await functions.serve("retention")).json()
        assert (cleaned["erased"], cleaned["unknown_files"]) == (1, 0)
    assert (await functions.serve("retention")).json()["erased"] == 1
