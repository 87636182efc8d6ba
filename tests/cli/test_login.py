"""pagewarden login and logout, as a person types them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.client.desk import ADA, PASSWORD

if TYPE_CHECKING:
    from tests.client.desk import Desk


async def test_somebody_signs_in_uploads_and_signs_out(desk: Desk) -> None:
    """The upload is theirs; after signing out there is neither a file nor a session."""
    await desk.signing.users.add(ADA, PASSWORD, is_admin=False)
    wrong = await desk.typed("login", "--email", ADA, given=b"wrong\n")
    assert (wrong.code, desk.sessions.path.exists()) == (1, False)
    assert "rejected the sign-in: Invalid login credentials" in wrong.err

    signed_in = await desk.typed("login", "--email", ADA, given=PASSWORD.encode() + b"\n")
    assert (signed_in.code, signed_in.err) == (0, "")
    assert f"signed in to {desk.house.url} as {ADA}" in signed_in.out
    uploaded = await desk.typed("upload", desk.file())
    assert uploaded.code == 0, uploaded.err
    query = "select u.email from cases as c join auth.users as u on u.id = c.user_id"
    assert await (await desk.house.factory.conn.execute(query)).fetchone() == (ADA,)

    assert (await desk.typed("logout")).code == 0
    assert desk.sessions.get(desk.house.url) is None
    sessions = await desk.house.factory.conn.execute("select count(*) from auth.sessions")
    assert await sessions.fetchone() == (0,)
    refused = await desk.typed("upload", desk.file())
    assert refused.code == 1
    assert "you are not signed in" in refused.err
    assert "Traceback" not in wrong.err + refused.err
