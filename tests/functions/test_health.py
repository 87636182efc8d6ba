"""Health: whoever asks learns whether it works, and nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.functions.house import House


async def test_a_server_that_works_is_ready(functions: House) -> None:
    """Without a key."""
    answers = [await functions.session.get(path) for path in ("/healthz", "/readyz")]
    assert [answer.status_code for answer in answers] == [200, 200]


async def test_one_that_cannot_work_does_not_tell_strangers_why(functions: House) -> None:
    """Folders, hosts and accounts are for the log; it still lives."""
    if functions.folder.exists():
        functions.folder.rmdir()
    functions.folder.write_bytes(b"")
    answer = await functions.session.get("/readyz")
    assert (answer.status_code, answer.json()["error"]) == (503, "NOT_READY")
    assert int(answer.headers["retry-after"]) > 0
    assert str(functions.folder) not in answer.text
    assert (await functions.session.get("/healthz")).status_code == 200
