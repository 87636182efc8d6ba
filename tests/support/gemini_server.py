"""A scripted server on loopback with the part of Gemini's API that we use."""

from __future__ import annotations

import base64
import contextlib
import http.server
import json
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

INPUT_TOKENS = 1000
OUTPUT_TOKENS = 200
THOUGHT_TOKENS = 30


@dataclass(frozen=True, slots=True)
class Reply:
    """The server's reaction to a request: a response, or a fault."""

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    kind: Literal["answer", "silence", "drip", "hang up"] = "answer"


@dataclass(frozen=True, slots=True)
class Request:
    """A received request."""

    path: str
    headers: Mapping[str, str]
    body: Mapping[str, Any]

    @property
    def parts(self) -> Sequence[Mapping[str, Any]]:
        """Return all parts of the prompt."""
        (content,) = self.body["contents"]
        parts: Sequence[Mapping[str, Any]] = content["parts"]
        return parts

    @property
    def texts(self) -> list[str]:
        """Return the texts of the prompt."""
        return [part["text"] for part in self.parts if "text" in part]

    @property
    def image(self) -> bytes:
        """Return the image of the prompt."""
        (image,) = (part["inlineData"]["data"] for part in self.parts if "inlineData" in part)
        return base64.urlsafe_b64decode(image)

    @property
    def instruction(self) -> str:
        """Return the system instruction."""
        text: str = self.body["systemInstruction"]["parts"][0]["text"]
        return text

    @property
    def schema(self) -> Mapping[str, Any]:
        """Return the schema of the response."""
        schema: Mapping[str, Any] = self.body["generationConfig"]["responseSchema"]
        return schema


class GeminiServer:
    """The server: it sends the replies of the script, then those for the requested schema."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.script: list[Reply] = []
        self.by_schema: Mapping[str, Reply] = {}
        self.url = ""
        self.stopping = threading.Event()
        self._lock = threading.Lock()

    def next_reply(self, request: Request) -> Reply:
        """Record a request and return the reply."""
        with self._lock:
            self.requests.append(request)
            if self.script:
                return self.script.pop(0)
        (name,) = request.schema["properties"]
        return self.by_schema.get(name) or error_reply(501, "UNIMPLEMENTED", "the script has ended")


@contextlib.contextmanager
def run_server() -> Iterator[GeminiServer]:
    """Run a server on a free port."""
    gemini = GeminiServer()

    class Handler(_Handler):
        gemini_server = gemini

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = False  # closing the server waits for its threads
        gemini.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield gemini
        finally:
            gemini.stopping.set()
            server.shutdown()
            thread.join()


class _Handler(http.server.BaseHTTPRequestHandler):
    gemini_server: GeminiServer

    def do_POST(self) -> None:
        """Reply as scripted."""
        body = self.rfile.read(int(self.headers["Content-Length"]))
        request = Request(self.path, dict(self.headers), json.loads(body))
        reply = self.gemini_server.next_reply(request)
        if reply.kind == "silence":
            self.gemini_server.stopping.wait()
        elif reply.kind != "hang up":
            with contextlib.suppress(ConnectionError):  # the client disconnected first
                self._send(reply)

    def _send(self, reply: Reply) -> None:
        self.send_response(reply.status)
        for name, value in {"Content-Type": "application/json", **reply.headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(reply.body)
        while reply.kind == "drip" and not self.gemini_server.stopping.wait(0.02):
            self.wfile.write(b" ")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # name of the base class
        """Do not log."""


SILENCE = Reply(kind="silence")
DRIP = Reply(kind="drip")
HANG_UP = Reply(kind="hang up")


def json_reply(body: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Reply:
    """Make a reply with a JSON body."""
    return Reply(status, json.dumps(body).encode(), headers or {})


def text_reply(text: str, finish_reason: str = "STOP", *, thought: str = "") -> Reply:
    """Make a reply with a text of the model."""
    parts = [{"text": thought, "thought": True}] if thought else []
    content = {"role": "model", "parts": [*parts, {"text": text}]}
    return json_reply(
        {
            "candidates": [{"content": content, "finishReason": finish_reason, "index": 0}],
            "usageMetadata": {
                "promptTokenCount": INPUT_TOKENS,
                "candidatesTokenCount": OUTPUT_TOKENS,
                "thoughtsTokenCount": THOUGHT_TOKENS,
                "totalTokenCount": INPUT_TOKENS + OUTPUT_TOKENS + THOUGHT_TOKENS,
            },
            "modelVersion": "gemini-2.5-flash",
        }
    )


def line(text: str, box: object = (100, 200, 150, 600), confidence: float = 0.9) -> dict[str, Any]:
    """Make a line of the model's response; the box is top, left, bottom, right in thousandths."""
    return {"text": text, "box_2d": box, "confidence": confidence}


def extraction_reply(*lines: Mapping[str, Any]) -> Reply:
    """Make a reply with the lines of a page."""
    return text_reply(json.dumps({"lines": lines}))


def boost_reply(*corrections: tuple[int, str]) -> Reply:
    """Make a reply with corrections."""
    listed = [{"line": number, "text": text, "confidence": 0.99} for number, text in corrections]
    return text_reply(json.dumps({"corrections": listed}))


def blocked_prompt_reply(reason: str) -> Reply:
    """Make a reply that blocks the prompt."""
    return json_reply(
        {
            "promptFeedback": {"blockReason": reason},
            "usageMetadata": {"promptTokenCount": INPUT_TOKENS},
        }
    )


def blocked_answer_reply(reason: str) -> Reply:
    """Make a reply that blocks the answer."""
    return json_reply({"candidates": [{"finishReason": reason, "index": 0}]})


def error_reply(
    code: int,
    status: str = "",
    message: str = "message of the service",
    *details: Mapping[str, Any],
    headers: Mapping[str, str] | None = None,
) -> Reply:
    """Make a reply with an error in the format of Google's services."""
    error = {"code": code, "message": message, "status": status, "details": details}
    return json_reply({"error": error}, code, headers)


def retry_info(delay: str) -> Mapping[str, Any]:
    """Make an error detail with a retry delay."""
    return {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": delay}


def quota_failure(quota_id: str) -> Mapping[str, Any]:
    """Make an error detail with an exceeded quota."""
    return {
        "@type": "type.googleapis.com/google.rpc.QuotaFailure",
        "violations": [{"quotaMetric": "generate_requests", "quotaId": quota_id}],
    }


def error_info(reason: str) -> Mapping[str, Any]:
    """Make an error detail with a reason."""
    return {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": reason}
