"""The request for an upload address."""

from __future__ import annotations

import uuid  # noqa: TC003  # pydantic reads the annotations

from pydantic import BaseModel, Field

from pagewarden import storage

_OWN_FIELDS = {"name", "size", "sha256"}


class RequestedUpload(BaseModel):
    """A file that is to be uploaded, with the fields of an upload in one request."""

    name: str = Field(min_length=1, max_length=1024)
    size: int = Field(ge=0, le=2**63 - 1, description="Size in bytes.")
    sha256: str = Field(pattern="^[0-9a-f]{64}$", description="SHA-256 in lower-case hexadecimal.")
    case_id: uuid.UUID | None = None
    language: str | None = None
    engine: str | None = None
    profile: str | None = None
    callback_url: str | None = None

    @property
    def safe_name(self) -> str:
        """The name of the document."""
        return storage.make_safe_name(self.name)

    @property
    def fields(self) -> dict[str, str]:
        """The fields that an upload in one request has too."""
        return self.model_dump(mode="json", exclude=_OWN_FIELDS, exclude_none=True)
