"""A server on loopback that speaks the part of Gemini's API which we use, by a script."""

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
    """What the server does with a request: answer, or one of its other ways."""

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    way: Literal["answer", "silence", "drip", "hang up"] = "answer"


@dataclass(frozen=True, slots=True)
class Request:
    """A request as it arrived."""

    path: str
    headers: Mapping[str, str]
    body: Mapping[str, Any]

    @property
    def parts(self) -> Sequence[Mapping[str, Any]]:
        """Give what the model is shown and told."""
        (content,) = self.body["contents"]
        parts: Sequence[Mapping[str, Any]] = content["parts"]
        return parts

    @property
    def texts(self) -> list[str]:
        """Give what the model is told."""
        return [part["text"] for part in self.parts if "text" in part]

    @property
    def image(self) -> bytes:
        """Give what the model is shown."""
        (image,) = (part["inlineData"]["data"] for part in self.parts if "inlineData" in part)
        return base64.urlsafe_b64decode(image)

    @property
    def instruction(self) -> str:
        """Give what the model is told before anything else."""
        text: str = self.body["systemInstruction"]["parts"][0]["text"]
        return text

    @property
    def schema(self) -> Mapping[str, Any]:
        """Give the form that the answer must have."""
        schema: Mapping[str, Any] = self.body["generationConfig"]["responseSchema"]
        return schema


class GeminiServer:
    """The server: replies come in the order of the script, then in that of what was asked for."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.script: list[Reply] = []
        self.by_form: Mapping[str, Reply] = {}
        self.url = ""
        self.stopping = threading.Event()
        self._lock = threading.Lock()

    def next_reply(self, request: Request) -> Reply:
        """Note a request and decide what becomes of it."""
        with self._lock:
            self.requests.append(request)
            if self.script:
                return self.script.pop(0)
        (form,) = request.schema["properties"]
        return self.by_form.get(form) or fault(501, "UNIMPLEMENTED", "the script has ended")


@contextlib.contextmanager
def running() -> Iterator[GeminiServer]:
    """Run a server on a free port."""
    gemini = GeminiServer()

    class Handler(_Handler):
        server_of_test = gemini

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = False  # so that closing waits for them
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
    server_of_test: GeminiServer

    def do_POST(self) -> None:
        """Answer as the script says."""
        body = self.rfile.read(int(self.headers["Content-Length"]))
        request = Request(self.path, dict(self.headers), json.loads(body))
        reply = self.server_of_test.next_reply(request)
        if reply.way == "silence":
            self.server_of_test.stopping.wait()
        elif reply.way != "hang up":
            with contextlib.suppress(ConnectionError):  # the client was the first to leave
                self._answer(reply)

    def _answer(self, reply: Reply) -> None:
        self.send_response(reply.status)
        for name, value in {"Content-Type": "application/json", **reply.headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(reply.body)
        while reply.way == "drip" and not self.server_of_test.stopping.wait(0.02):
            self.wfile.write(b" ")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # so named there
        """Keep quiet."""


SILENCE = Reply(way="silence")
DRIP = Reply(way="drip")
HANG_UP = Reply(way="hang up")


def json_reply(body: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Reply:
    """Answer with a body of JSON."""
    return Reply(status, json.dumps(body).encode(), headers or {})


def said(text: str, finish_reason: str = "STOP", *, thought: str = "") -> Reply:
    """Answer with a text of the model."""
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
    """Describe a line as the model does; the box is top, left, bottom, right in thousandths."""
    return {"text": text, "box_2d": box, "confidence": confidence}


def extracted(*lines: Mapping[str, Any]) -> Reply:
    """Answer with the lines of a page."""
    return said(json.dumps({"lines": lines}))


def boosted(*corrections: tuple[int, str]) -> Reply:
    """Answer with corrections."""
    listed = [{"line": number, "text": text, "confidence": 0.99} for number, text in corrections]
    return said(json.dumps({"corrections": listed}))


def blocked_prompt(reason: str) -> Reply:
    """Answer that the page may not be asked about."""
    return json_reply(
        {
            "promptFeedback": {"blockReason": reason},
            "usageMetadata": {"promptTokenCount": INPUT_TOKENS},
        }
    )


def blocked_answer(reason: str) -> Reply:
    """Answer that there is an answer which may not be given."""
    return json_reply({"candidates": [{"finishReason": reason, "index": 0}]})


def fault(
    code: int,
    status: str = "",
    message: str = "words of the service",
    *details: Mapping[str, Any],
    headers: Mapping[str, str] | None = None,
) -> Reply:
    """Answer with an error in the form of Google's services."""
    error = {"code": code, "message": message, "status": status, "details": details}
    return json_reply({"error": error}, code, headers)


def retry_info(delay: str) -> Mapping[str, Any]:
    """Say when to come again."""
    return {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": delay}


def quota_failure(quota_id: str) -> Mapping[str, Any]:
    """Say which quota is used up."""
    return {
        "@type": "type.googleapis.com/google.rpc.QuotaFailure",
        "violations": [{"quotaMetric": "generate_requests", "quotaId": quota_id}],
    }


def error_info(reason: str) -> Mapping[str, Any]:
    """Say what is wrong in one word."""
    return {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": reason}
