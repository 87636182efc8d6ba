"""What the OpenAPI document says besides what FastAPI derives from the routes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pagewarden.functions.http import function_config

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

_VALIDATION_ERROR = "#/components/schemas/HTTPValidationError"


def complete(document: dict[str, Any], *, root_functions: Collection[str], prefix: str) -> None:
    """Complete the document: summaries, security of public routes, and servers.

    root_functions are at two addresses: the documented one below /, and below the prefix.
    """
    for path, operation in list_operations(document):
        _split_description(operation)
        _remove_validation_error(operation)
        _describe_security(operation)
        if path.split("/")[1] in root_functions:
            operation["servers"] = [
                {"url": "/"},
                {"url": prefix, "description": "The same as a function; on hosted Supabase"},
            ]
    for name in ("HTTPValidationError", "ValidationError"):
        document["components"]["schemas"].pop(name, None)


def list_operations(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """List the operations of a document, each with its path."""
    for path, methods in document["paths"].items():
        for operation in methods.values():
            yield path, operation


def _split_description(operation: dict[str, Any]) -> None:
    """Make the first sentence of the description the summary."""
    first, _, rest = operation["description"].partition("\n\n")
    operation["summary"] = " ".join(first.split()).removesuffix(".")
    operation["description"] = rest
    if not rest:
        del operation["description"]


def _describe_security(operation: dict[str, Any]) -> None:
    """Name the credentials: a user's token does not suffice for functions of services."""
    schemes = operation.setdefault("security", [])
    functions = function_config.list_functions().intersection(operation["tags"])
    if any(not function_config.requires_user_token(name) for name in functions):
        operation["security"] = [scheme for scheme in schemes if "UserToken" not in scheme]


def _remove_validation_error(operation: dict[str, Any]) -> None:
    """Remove FastAPI's own 422: invalid requests get our 400."""
    responses = operation["responses"]
    schema = responses.get("422", {}).get("content", {}).get("application/json", {}).get("schema")
    if schema == {"$ref": _VALIDATION_ERROR}:
        del responses["422"]
