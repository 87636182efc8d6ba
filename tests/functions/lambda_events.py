"""What AWS calls a Lambda function with, in the shapes of its documentation."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mangum.types import LambdaCognitoIdentity, LambdaMobileClientContext

ACCOUNT = "123456789012"
HOST = "abcde12345.execute-api.eu-central-1.amazonaws.com"


@dataclass(slots=True)
class Context:
    """What Lambda says of a call; so many seconds of its time are left."""

    seconds: float = 300.0
    function_name: str = "pagewarden"
    function_version: str = "$LATEST"
    invoked_function_arn: str = f"arn:aws:lambda:eu-central-1:{ACCOUNT}:function:pagewarden"
    memory_limit_in_mb: int = 1769
    aws_request_id: str = "8476a536-e9f4-11e8-9739-2dfe598c3fcd"
    log_group_name: str = "/aws/lambda/pagewarden"
    log_stream_name: str = "2026/11/16/[$LATEST]58419525dade4d17a495dceeeed44708"
    identity: LambdaCognitoIdentity | None = None
    client_context: LambdaMobileClientContext | None = None

    def get_remaining_time_in_millis(self) -> int:
        """Say how much of the time limit is left."""
        return int(self.seconds * 1000)


def request(
    method: str,
    path: str,
    *,
    query: str = "",
    headers: dict[str, str] | None = None,
    cookies: list[str] | None = None,
    body: bytes | None = None,
    text: str | None = None,
) -> dict[str, Any]:
    """Make the event of an HTTP API or a function URL: payload format 2.0."""
    event: dict[str, Any] = {
        "version": "2.0",
        "routeKey": "$default",
        "rawPath": path,
        "rawQueryString": query,
        "headers": {
            "accept": "*/*",
            "content-length": str(len(body or text or "")),
            "host": HOST,
            "user-agent": "python-httpx/0.28.1",
            "x-amzn-trace-id": "Root=1-5e6722a7-cc56xmpl46db7ae02d4da47e",
            "x-forwarded-for": "203.0.113.9",
            "x-forwarded-port": "443",
            "x-forwarded-proto": "https",
            **(headers or {}),
        },
        "requestContext": {
            "accountId": ACCOUNT,
            "apiId": "abcde12345",
            "domainName": HOST,
            "domainPrefix": "abcde12345",
            "http": {
                "method": method,
                "path": path,
                "protocol": "HTTP/1.1",
                "sourceIp": "203.0.113.9",
                "userAgent": "python-httpx/0.28.1",
            },
            "requestId": "JKJaXmPLvHcESHA=",
            "routeKey": "$default",
            "stage": "$default",
            "time": "16/Nov/2026:14:01:02 +0000",
            "timeEpoch": 1794837662000,
        },
        "isBase64Encoded": body is not None,
    }
    if cookies:
        event["cookies"] = cookies
    if body is not None:
        event["body"] = base64.b64encode(body).decode()
    elif text is not None:
        event["body"] = text
    return event


def rule(name: str, detail: dict[str, Any] | None = None) -> dict[str, Any]:
    """Make what a scheduled rule of EventBridge sends when it has no input of its own."""
    return {
        "version": "0",
        "id": "53dc4d37-cffa-4f76-80c9-8b7d4a4d2eaa",
        "detail-type": "Scheduled Event",
        "source": "aws.events",
        "account": ACCOUNT,
        "time": "2026-11-16T14:01:00Z",
        "region": "eu-central-1",
        "resources": [f"arn:aws:events:eu-central-1:{ACCOUNT}:rule/{name}"],
        "detail": detail or {},
    }


def schedule(name: str) -> dict[str, Any]:
    """Make what EventBridge Scheduler sends when it has no input of its own; detail is text."""
    return rule(name) | {
        "source": "aws.scheduler",
        "resources": [f"arn:aws:scheduler:eu-central-1:{ACCOUNT}:schedule/default/{name}"],
        "detail": "{}",
    }


def schedule_input(function: str) -> dict[str, Any]:
    """Make what EventBridge Scheduler sends in our own deployment: the input as it stands there."""
    return {"source": "aws.scheduler", "detail": {"function": function}}
