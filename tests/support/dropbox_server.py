"""A server on loopback with the part of Dropbox's API v2 that we use.

Requests and responses are validated with the types of Dropbox's own library, so that neither side
of a test can invent a field. Files are in memory. Tests can inject faults.
"""

from __future__ import annotations

import collections
import contextlib
import functools
import hashlib
import http.server
import json
import re
import secrets
import sys
import threading
import urllib.parse
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from dropbox import files  # type: ignore[import-untyped]  # has no types
from dropbox.content_hash import DropboxContentHasher  # type: ignore[import-untyped]
from stone.backends.python_rsrc import stone_serializers, stone_validators

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

_serializers: Any = stone_serializers  # has types, but not all

APP_KEY = "app-key"
APP_SECRET = "app-secret"
REFRESH_TOKEN = "refresh-token"

EXPIRED = {"error_summary": "expired_access_token/..", "error": {".tag": "expired_access_token"}}

_WAIT_SECONDS = 10.0
_TOO_LARGE_FOR_ONE_REQUEST = 150 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault that replaces or disturbs the response to a request."""

    kind: Literal["answer", "hang up", "lose the answer", "break off", "corrupt", "wait"] = "answer"
    status: int = 500
    body: Any = ""
    headers: Mapping[str, str] = field(default_factory=dict)


HANG_UP = Fault("hang up")  # neither processed nor answered
LOSE_ANSWER = Fault("lose the answer")  # processed, but not answered
BREAK_OFF = Fault("break off")  # only half of the content is sent
CORRUPT = Fault("corrupt")  # one byte of the content is wrong
WAIT = Fault("wait")  # sets `reached`, and continues when `go_on` is set
BROKEN = Fault(status=503)


def rate_limit_fault(seconds: int) -> Fault:
    """Make a response that asks the client to wait."""
    reason = {"reason": {".tag": "too_many_requests"}, "retry_after": seconds}
    headers = {"Retry-After": str(seconds)}
    body = {"error_summary": "too_many_requests/..", "error": reason}
    return Fault(status=429, headers=headers, body=body)


def error_fault(route: Any, error: Any) -> Fault:
    """Make a response with an error of Dropbox's library."""
    encoded = json.loads(_serializers.json_encode(route.error_type, error))
    return Fault(status=409, body={"error_summary": f"{encoded['.tag']}/..", "error": encoded})


@dataclass(frozen=True)
class File:
    """A stored file."""

    path: str
    content: bytes
    rev: str = field(default_factory=lambda: secrets.token_hex(8))
    modified: datetime = field(default_factory=lambda: datetime.now(UTC).replace(tzinfo=None))

    @functools.cached_property
    def metadata(self) -> Any:
        """Return the metadata in Dropbox's format."""
        return files.FileMetadata(
            name=self.path.rpartition("/")[2],
            id=f"id:{hashlib.sha256(self.path.encode()).hexdigest()[:20]}",
            client_modified=self.modified,
            server_modified=self.modified,
            rev=self.rev,
            size=len(self.content),
            path_lower=self.path.lower(),
            path_display=self.path,
            content_hash=content_hash(self.content),
        )


class _Refused(Exception):
    """A route refused a request with an error of Dropbox's library."""

    def __init__(self, error: Any) -> None:
        self.error = error


class DropboxServer:
    """The server, with one account."""

    def __init__(self) -> None:
        self.url = ""
        self.requests: list[str] = []
        self.errors: list[BaseException | None] = []
        self.faults: collections.defaultdict[str, list[Fault]] = collections.defaultdict(list)
        self.files: dict[str, File] = {}
        self.sessions: dict[str, bytearray] = {}
        self.capacity: int | None = None
        self.page_size = 1000
        self.refresh_token = REFRESH_TOKEN
        self.lifetime = 14400
        self.lock = threading.Lock()
        self.reached = threading.Event()
        self.go_on = threading.Event()
        self._token = ""
        self._links: dict[str, str] = {}
        self._upload_links: dict[str, Any] = {}

    def expire_token(self) -> None:
        """Invalidate the issued access token."""
        self._token = ""

    def is_authorized(self, authorization: str) -> bool:
        """Return whether a request has the valid access token."""
        return bool(self._token) and authorization == f"Bearer {self._token}"

    def issue_token(self, form: Mapping[str, str]) -> tuple[int, Any]:
        """Issue an access token."""
        expected = {
            "grant_type": "refresh_token",
            "refresh_token": self.refresh_token,
            "client_id": APP_KEY,
            "client_secret": APP_SECRET,
        }
        if form != expected:
            return 400, {"error": "invalid_grant", "error_description": "refresh token is invalid"}
        self._token = secrets.token_hex(8)
        answer = {"access_token": self._token, "token_type": "bearer", "expires_in": self.lifetime}
        return 200, answer

    def find_linked(self, path: str) -> File | None:
        """Return the file of a temporary link."""
        return self.files.get(self._links.get(path, ""))

    def upload(self, argument: Any, body: bytes) -> Any:
        """Store a file that is sent in one request."""
        self._check_hash(argument, body, files.UploadError.content_hash_mismatch)
        if len(body) > _TOO_LARGE_FOR_ONE_REQUEST:
            raise _Refused(files.UploadError.payload_too_large)
        try:
            return self._commit(argument, body)
        except _Refused as exc:
            failed = files.UploadWriteFailed(reason=exc.error, upload_session_id="unused")
            raise _Refused(files.UploadError.path(failed)) from exc

    def upload_session_start(self, argument: Any, body: bytes) -> Any:
        """Start an upload session."""
        self._check_hash(argument, body, files.UploadSessionStartError.content_hash_mismatch)
        session = secrets.token_hex(8)
        self.sessions[session] = bytearray(body)
        return files.UploadSessionStartResult(session_id=session)

    def upload_session_append_v2(self, argument: Any, body: bytes) -> None:
        """Append to an upload session."""
        self._check_hash(argument, body, files.UploadSessionAppendError.content_hash_mismatch)
        self._find_session(argument.cursor, files.UploadSessionAppendError).extend(body)

    def upload_session_finish(self, argument: Any, body: bytes) -> Any:
        """Store the file of an upload session and end the session."""
        kind = files.UploadSessionFinishError
        try:
            content = self._find_session(argument.cursor, files.UploadSessionLookupError)
        except _Refused as exc:
            raise _Refused(kind.lookup_failed(exc.error)) from exc
        try:
            stored = self._commit(argument.commit, bytes(content) + body)
        except _Refused as exc:
            raise _Refused(kind.path(exc.error)) from exc
        del self.sessions[argument.cursor.session_id]
        return stored

    def download(self, argument: Any, _body: bytes) -> File:
        """Return a file."""
        return self._find(argument.path, files.DownloadError.path)

    def get_metadata(self, argument: Any, _body: bytes) -> Any:
        """Return the metadata of a file or folder."""
        if argument.path.lower() not in self.files and self._list_below(argument.path):
            name = argument.path.rpartition("/")[2]
            return files.FolderMetadata(name=name, id="id:folder", path_display=argument.path)
        return self._find(argument.path, files.GetMetadataError.path).metadata

    def delete_v2(self, argument: Any, _body: bytes) -> Any:
        """Delete a file; the store never deletes folders."""
        found = self._find(argument.path, files.DeleteError.path_lookup)
        assert argument.parent_rev == found.rev
        return files.DeleteResult(metadata=self.files.pop(found.path.lower()).metadata)

    def list_folder(self, argument: Any, _body: bytes) -> Any:
        """Return the first page of a folder."""
        assert argument.path != "/", "the path of the root is empty"
        lookup = files.LookupError
        if argument.path and not self._list_below(argument.path):
            is_file = argument.path.lower() in self.files
            reason = lookup.not_folder if is_file else lookup.not_found
            raise _Refused(files.ListFolderError.path(reason))
        return self._make_listing(argument.path, 0)

    def list_folder_continue(self, argument: Any, _body: bytes) -> Any:
        """Return the next page of a folder."""
        path, _, position = argument.cursor.rpartition("#")
        return self._make_listing(path, int(position))

    def get_temporary_link(self, argument: Any, _body: bytes) -> Any:
        """Create a temporary link."""
        found = self._find(argument.path, files.GetTemporaryLinkError.path)
        link = f"/temporary/{secrets.token_hex(8)}"
        self._links[link] = found.path.lower()
        return files.GetTemporaryLinkResult(metadata=found.metadata, link=self.url + link)

    def copy_v2(self, argument: Any, _body: bytes) -> Any:
        """Copy a file."""
        kind = files.RelocationError
        found = self._find(argument.from_path, kind.from_lookup)
        assert not argument.autorename
        if reason := self._find_conflict(argument.to_path):
            raise _Refused(kind.to(files.WriteError.conflict(reason)))
        copy = self.files[argument.to_path.lower()] = File(argument.to_path, found.content)
        return files.RelocationResult(metadata=copy.metadata)

    def get_temporary_upload_link(self, argument: Any, _body: bytes) -> Any:
        """Create a temporary upload link."""
        link = f"/apitul/1/{secrets.token_hex(8)}"
        self._upload_links[link] = argument.commit_info
        return files.GetTemporaryUploadLinkResult(link=self.url + link)

    def upload_to_link(self, link: str, content_type: str, body: bytes) -> tuple[int, Any]:
        """Store a file that is sent to a temporary upload link, which is then used up."""
        if content_type != "application/octet-stream":
            return 400, "invalid Content-Type"
        commit = self._upload_links.pop(link, None)
        if commit is None:
            return 410, "the link has been consumed"
        if len(body) > _TOO_LARGE_FOR_ONE_REQUEST:
            return 409, "too large"
        try:
            self._commit(commit, body)
        except _Refused:
            return 409, "conflict"
        return 200, {"content-hash": content_hash(body)}

    def _commit(self, argument: Any, content: bytes) -> Any:
        assert argument.mode.is_add()
        assert argument.strict_conflict
        assert not argument.autorename
        used = sum(len(file.content) for file in self.files.values())
        if self.capacity is not None and used + len(content) > self.capacity:
            raise _Refused(files.WriteError.insufficient_space)
        if reason := self._find_conflict(argument.path):
            raise _Refused(files.WriteError.conflict(reason))
        file = self.files[argument.path.lower()] = File(argument.path, content)
        return file.metadata

    def _find_conflict(self, path: str) -> Any:
        conflict = files.WriteConflictError
        if path.lower() in self.files:
            return conflict.file
        if self._list_below(path):
            return conflict.folder
        parents = [path[: found.start()].lower() for found in re.finditer("/", path)]
        return conflict.file_ancestor if any(up in self.files for up in parents) else None

    def _find_session(self, cursor: Any, kind: Any) -> bytearray:
        session = self.sessions.get(cursor.session_id)
        if session is None:
            raise _Refused(kind.not_found)
        if len(session) != cursor.offset:
            offset = files.UploadSessionOffsetError(correct_offset=len(session))
            raise _Refused(kind.incorrect_offset(offset))
        return session

    def _check_hash(self, argument: Any, body: bytes, mismatch: Any) -> None:
        if argument.content_hash != content_hash(body):
            raise _Refused(mismatch)

    def _find(self, path: str, kind: Callable[[Any], Any]) -> File:
        found = self.files.get(path.lower())
        if found is None:
            lookup = files.LookupError
            raise _Refused(kind(lookup.not_file if self._list_below(path) else lookup.not_found))
        return found

    def _list_below(self, path: str) -> list[str]:
        return sorted(key for key in self.files if key.startswith(f"{path.lower()}/"))

    def _make_listing(self, path: str, start: int) -> Any:
        found = self._list_below(path)
        folders = sorted({self.files[key].path.rpartition("/")[0] for key in found} - {""})
        entries = [
            *(
                files.FolderMetadata(name=up.rpartition("/")[2], id="id:folder", path_display=up)
                for up in folders
            ),
            *(self.files[key].metadata for key in found),
        ]
        end = start + self.page_size
        return files.ListFolderResult(
            entries=entries[start:end], cursor=f"{path}#{end}", has_more=end < len(entries)
        )


def content_hash(content: bytes) -> str:
    """Return the hash that Dropbox's own library computes."""
    hasher = DropboxContentHasher()
    hasher.update(content)
    return str(hasher.hexdigest())


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server_of_test: ClassVar[DropboxServer]

    def do_GET(self) -> None:
        """Serve a temporary link."""
        found = self.server_of_test.find_linked(self.path)
        self._send(200 if found else 410, found.content if found else b"")

    def do_POST(self) -> None:
        """Process a request, or inject a fault."""
        body = self.rfile.read(int(self.headers["Content-Length"]))
        name = self.path.removeprefix("/2/files/").removeprefix("/")
        self.server_of_test.requests.append(name)
        faults = self.server_of_test.faults[name]
        fault = faults.pop(0) if faults else None
        if fault is None or fault.kind != "answer":
            self._process(name, body, fault)
        else:
            text = fault.body if isinstance(fault.body, str) else json.dumps(fault.body)
            self._send(fault.status, text.encode(), fault.headers)

    def _process(self, name: str, body: bytes, fault: Fault | None) -> None:
        if fault is HANG_UP:
            self.close_connection = True
            return
        if fault is WAIT:
            self.server_of_test.reached.set()
            assert self.server_of_test.go_on.wait(_WAIT_SECONDS)
        if name.startswith("apitul/"):
            kind = self.headers["Content-Type"]
            self._answer(*self.server_of_test.upload_to_link(self.path, kind, body))
        elif name == "oauth2/token":
            form = dict(urllib.parse.parse_qsl(body.decode()))
            self._answer(*self.server_of_test.issue_token(form))
        elif not self.server_of_test.is_authorized(self.headers["Authorization"]):
            self._answer(401, EXPIRED)
        else:
            with self.server_of_test.lock:
                status, answer = self._run(getattr(files, name.replace("/", "_")), name, body)
            if fault is LOSE_ANSWER:
                self.close_connection = True
            elif isinstance(answer, File):
                self._send_file(answer, fault)
            else:
                self._answer(status, answer)

    def _run(self, route: Any, name: str, body: bytes) -> tuple[int, Any]:
        content = route.attrs["host"] == "content"
        argument = self.headers["Dropbox-API-Arg"] if content else body
        try:
            decoded = _serializers.json_decode(route.arg_type, argument, strict=True)
        except (ValueError, stone_validators.ValidationError) as exc:
            return 400, f"Error in call: {exc}"
        method = getattr(self.server_of_test, name.replace("/", "_"))
        try:
            result = method(decoded, body if content else b"")
        except _Refused as exc:
            error = json.loads(_serializers.json_encode(route.error_type, exc.error))
            return 409, {"error_summary": f"{error['.tag']}/..", "error": error}
        if isinstance(result, File):
            return 200, result
        return 200, json.loads(_serializers.json_encode(route.result_type, result))

    def _send_file(self, file: File, fault: Fault | None) -> None:
        requested = re.fullmatch(r"bytes=(\d+)-", self.headers["Range"] or "bytes=0-")
        assert requested
        start, size = int(requested[1]), len(file.content)
        if start and start >= size:
            self._send(416, b"")
            return
        metadata = _serializers.json_encode(files.download.result_type, file.metadata)
        content = bytearray(file.content[start:])
        if fault is CORRUPT:
            content[0] ^= 1
        self.send_response(206 if start else 200)
        self.send_header("Dropbox-API-Result", metadata)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content[: len(content) // 2] if fault is BREAK_OFF else content)
        self.close_connection = fault is BREAK_OFF

    def _answer(self, status: int, body: Any) -> None:
        self._send(status, body.encode() if isinstance(body, str) else json.dumps(body).encode())

    def _send(self, status: int, body: bytes, headers: Mapping[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # name of the base class
        """Do not log."""


class _Server(http.server.ThreadingHTTPServer):
    RequestHandlerClass: type[_Handler]
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Record errors of the server; ignore disconnected clients."""
        del request, client_address
        if not isinstance(error := sys.exception(), ConnectionError):
            self.RequestHandlerClass.server_of_test.errors.append(error)


@contextlib.contextmanager
def run_server() -> Iterator[DropboxServer]:
    """Run a server on a free port."""
    dropbox = DropboxServer()
    handler = type("Handler", (_Handler,), {"server_of_test": dropbox})
    with _Server(("127.0.0.1", 0), handler) as server:
        dropbox.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield dropbox
        finally:
            server.shutdown()
            thread.join()
    assert dropbox.errors == []
