"""One file on its way into a Dropbox: in one request, or in a session of many."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pagewarden import errors
from pagewarden.files.dropbox import faults, hashing

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping

    from pagewarden import retry
    from pagewarden.files.dropbox import api as api_module


@dataclass(frozen=True, slots=True)
class Commit:
    """The request that lets a file appear."""

    route: str
    argument: Mapping[str, Any]
    data: bytes


class Upload:
    """A file: send() its blocks, then commit() it. What is never committed leaves no trace."""

    def __init__(self, api: api_module.Api, retry_policy: retry.RetryPolicy, place: str) -> None:
        self._api = api
        self._retry = retry_policy
        self._place = place
        self._hash = hashing.ContentHash()

    async def send(self, blocks: AsyncGenerator[bytes, None]) -> Commit:
        """Hand over what is more than one request can hold."""
        first = await self._next(blocks) or b""
        block = await self._next(blocks)
        if block is None:
            argument = {**self._file(), "content_hash": self._hash.hexdigest()}
            return Commit("files/upload", argument, first)
        session = await self._start(first)
        sent = len(first)
        while block is not None:
            await self._append({"session_id": session, "offset": sent}, block)
            sent += len(block)
            block = await self._next(blocks)
        cursor = {"session_id": session, "offset": sent}
        argument = {"cursor": cursor, "commit": self._file()}
        return Commit("files/upload_session/finish", argument, b"")

    async def commit(self, last: Commit) -> None:
        """Let the file appear; raises Refusal, or an error of ours."""
        tries = 0

        async def attempt() -> None:
            nonlocal tries
            tries += 1
            try:
                await self._api.send(last.route, last.argument, last.data)
            except faults.Refusal:
                # The file in the way may be ours: an earlier try got through, its answer did not.
                if tries == 1 or not await self._is_there():
                    raise

        await self._retry.call(attempt)

    async def _next(self, blocks: AsyncGenerator[bytes, None]) -> bytes | None:
        block = await anext(blocks, None)
        if block is not None:
            await asyncio.to_thread(self._hash.update, block)
        return block

    async def _start(self, block: bytes) -> str:
        argument = {"close": False, "content_hash": await _hash_of(block)}

        async def attempt() -> str:
            answer = await self._api.send("files/upload_session/start", argument, block)
            return str(answer["session_id"])

        return await self._retry.call(attempt)

    async def _append(self, cursor: Mapping[str, Any], block: bytes) -> None:
        argument = {"cursor": cursor, "close": False, "content_hash": await _hash_of(block)}

        async def attempt() -> None:
            try:
                await self._api.send("files/upload_session/append_v2", argument, block)
            except faults.Refusal as refusal:
                # An earlier try got through, and only its answer was lost.
                if refusal.correct_offset != cursor["offset"] + len(block):
                    raise

        try:
            await self._retry.call(attempt)
        except faults.Refusal as refusal:
            raise errors.StoreAway(
                f"Dropbox lost an upload half-way ({refusal}); send the file again"
            ) from refusal

    async def _is_there(self) -> bool:
        try:
            found = await self._api.call("files/get_metadata", {"path": self._place})
        except faults.Refusal:
            return False
        return bool(found.get("content_hash") == self._hash.hexdigest())

    def _file(self) -> dict[str, Any]:
        return {
            "path": self._place,
            "mode": "add",
            "autorename": False,
            "strict_conflict": True,  # or the same bytes could be written twice
            "mute": True,
        }


async def _hash_of(block: bytes) -> str:
    return (await asyncio.to_thread(hashing.ContentHash, block)).hexdigest()
