"""The Settings class: every setting with its names, its default, its meaning and its checks."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal, Self

from pydantic import AliasChoices, Field, HttpUrl, SecretStr, model_validator
from pydantic_settings import SettingsConfigDict

from pagewarden import errors
from pagewarden.ocr import engines
from pagewarden.ocr.engines.gemini import GeminiSettings
from pagewarden.settings import secrets

PREFIX = "PAGEWARDEN_"

HEARTBEAT_SECONDS = 5.0
LOCK_SECONDS = 20.0
SWEEP_SECONDS = 5.0
UPLOAD_MAX_BYTES = 1_000_000_000

# Where `python -m pagewarden.gpu_service` listens by default; workers use it only if it is set.
GPU_SERVICE_URL = "http://127.0.0.1:54330"
GPU_SILENCE_SECONDS = 30.0
GPU_DOCUMENTS = 8
GPU_WAITING = 8

LISTEN_HOST = "127.0.0.1"
LISTEN_PORT = 54321
REQUESTS_PER_MINUTE = 1200
DISPATCH_CONCURRENCY = 10
METRICS_HOST = "127.0.0.1"

DROPBOX_API_URL = HttpUrl("https://api.dropboxapi.com/")
DROPBOX_CONTENT_URL = HttpUrl("https://content.dropboxapi.com/")
PUBSUB_KEYS_URL = HttpUrl("https://www.googleapis.com/oauth2/v3/certs")

CHECK_MAX_IMAGES = 50
CHECK_MAX_IMAGE_BYTES = 5_000_000
CHECK_MAX_JOB_BYTES = 100_000_000
CHECK_MAX_PIXELS = 50_000_000
CHECK_READ_SECONDS = 30.0
CHECK_JOB_SECONDS = 86_400.0
CHECK_RESULT_DAYS = 7.0
CHECK_INPUT_DAYS = 30.0
MESSAGE_DAYS = 30.0

_ADVICE = 'generate one with "openssl rand -base64 48"'


def get_default_home() -> Path:
    """Return the default data folder: /var/lib for root, otherwise the user's data folder.

    The embedded server cannot run as root. It uses another account then, which must reach the
    folder without access to root's own folders.
    """
    if os.geteuid() == 0:
        return Path("/var/lib/pagewarden")
    base = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(base) / "pagewarden"


class Settings(GeminiSettings):
    """All settings of all processes; those of the engine gemini are inherited."""

    model_config = SettingsConfigDict(env_prefix=PREFIX)

    home: Path = Field(
        default_factory=get_default_home,
        description="Data folder of the embedded server, which only its account can read.",
    )
    database_url: SecretStr | None = Field(
        default=None,
        validation_alias=AliasChoices("PAGEWARDEN_DATABASE_URL", "DATABASE_URL"),
        description="URL of a Postgres database to use instead of the embedded one (postgresql://…).",
    )
    supabase_url: str | None = Field(
        default=None,
        validation_alias=AliasChoices("PAGEWARDEN_SUPABASE_URL", "SUPABASE_URL"),
        description=(
            "URL of a Supabase project; the database is then accessed over HTTP, not directly."
        ),
    )
    supabase_key: SecretStr | None = Field(
        default=None,
        validation_alias=AliasChoices("PAGEWARDEN_SUPABASE_KEY", "SUPABASE_SERVICE_ROLE_KEY"),
        description="Secret key of that project; services also use it to call each other.",
    )
    publishable_key: str | None = Field(
        default=None,
        validation_alias=AliasChoices("PAGEWARDEN_PUBLISHABLE_KEY", "SUPABASE_ANON_KEY"),
        description=("Public API key for client applications; it grants no access by itself."),
    )
    jwt_secret: SecretStr | None = Field(
        default=None,
        validation_alias=AliasChoices("PAGEWARDEN_JWT_SECRET", "SUPABASE_JWT_SECRET"),
        description="Secret that signs tokens, unless the project signs them with key pairs.",
    )
    webhook_secret: SecretStr | None = Field(
        default=None,
        description=(
            "Secret that signs webhooks, so that receivers can verify them; base64, optionally "
            "with the prefix `whsec_`."
        ),
    )
    jwt_issuer: str | None = Field(
        default=None, description="Required issuer (claim `iss`) of tokens; any issuer by default."
    )
    listen_host: str = Field(
        default=LISTEN_HOST, description="Address on which the functions are served."
    )
    listen_port: int = Field(
        default=LISTEN_PORT, ge=1, le=65535, description="Port on which the functions are served."
    )
    requests_per_minute: int = Field(
        default=REQUESTS_PER_MINUTE,
        ge=1,
        description="Rate limit for the functions, per user and process.",
    )
    site_url: str = Field(
        default_factory=lambda values: f"http://127.0.0.1:{values['listen_port']}",
        pattern=r"^https?://[^\s/]+$",
        description="URL at which users reach this system; used in links.",
    )
    dispatch: Literal["process", "http"] = Field(
        default="process",
        description=(
            "Where `ocr-worker` and `pdf-worker` have documents read: in their own `process`, or "
            "over `http` in one invocation of `ocr-universal` or `pdf-extract` per document."
        ),
    )
    dispatch_concurrency: int = Field(
        default=DISPATCH_CONCURRENCY,
        ge=1,
        le=1000,
        description="Maximum number of documents that one call of these functions hands over.",
    )
    functions_url: str | None = Field(
        default=None,
        pattern=r"^https?://[^\s]+$",
        description=(
            "URL at which functions call each other, without `/functions/v1`; by default "
            "PAGEWARDEN_SUPABASE_URL, or else PAGEWARDEN_SITE_URL."
        ),
    )
    database_webhook_secret: SecretStr | None = Field(
        default=None,
        description=(
            "Secret that Supabase Database Webhooks send in the header `x-webhook-secret`; without "
            "it, they require the secret key."
        ),
    )
    heartbeat_seconds: float = Field(
        default=HEARTBEAT_SECONDS, gt=0, description="Interval between the heartbeats of a worker."
    )
    lock_seconds: float = Field(
        default=LOCK_SECONDS,
        gt=0,
        description="Time after the last heartbeat at which a lock expires.",
    )
    sweep_seconds: float = Field(
        default=SWEEP_SECONDS, gt=0, description="Interval between sweeps for expired locks."
    )
    files: str | None = Field(
        default=None,
        description=(
            "File store: a folder, `dropbox:///folder` or `s3://bucket/prefix`; by default the "
            "folder `files` in PAGEWARDEN_HOME."
        ),
    )
    files_public_url: HttpUrl | None = Field(
        default=None,
        description=(
            "URL at which other services can fetch files from a folder store; required for "
            "signed URLs."
        ),
    )
    files_signing_key: SecretStr | None = Field(
        default=None, description="Secret that signs those URLs."
    )
    dropbox_app_key: str | None = Field(
        default=None,
        validation_alias=AliasChoices("PAGEWARDEN_DROPBOX_APP_KEY", "DROPBOX_APP_KEY"),
        description="App key of the Dropbox app.",
    )
    dropbox_app_secret: SecretStr | None = Field(
        default=None,
        validation_alias=AliasChoices("PAGEWARDEN_DROPBOX_APP_SECRET", "DROPBOX_APP_SECRET"),
        description=(
            "App secret of the Dropbox app; not needed for a refresh token obtained with PKCE."
        ),
    )
    dropbox_refresh_token: SecretStr | None = Field(
        default=None,
        validation_alias=AliasChoices("PAGEWARDEN_DROPBOX_REFRESH_TOKEN", "DROPBOX_REFRESH_TOKEN"),
        description="Refresh token of the Dropbox account.",
    )
    dropbox_api_url: HttpUrl = Field(
        default=DROPBOX_API_URL, description="URL of the Dropbox API, or of a proxy for it."
    )
    dropbox_content_url: HttpUrl = Field(
        default=DROPBOX_CONTENT_URL,
        description="URL of the Dropbox API for file contents, or of a proxy for it.",
    )
    s3_endpoint: HttpUrl | None = Field(
        default=None,
        validation_alias=AliasChoices(
            "PAGEWARDEN_S3_ENDPOINT", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"
        ),
        description=(
            "Endpoint of an S3-compatible store other than Amazon S3; for Supabase Storage: "
            "`https://<project>.storage.supabase.co/storage/v1/s3`."
        ),
    )
    s3_region: str | None = Field(
        default=None,
        validation_alias=AliasChoices("PAGEWARDEN_S3_REGION", "AWS_REGION", "AWS_DEFAULT_REGION"),
        description="Region of the bucket.",
    )
    s3_access_key_id: str | None = Field(
        default=None,
        description=(
            "Access key ID; by default the credentials of the environment (AWS_ACCESS_KEY_ID "
            "and so on) or of the machine's role."
        ),
    )
    s3_secret_access_key: SecretStr | None = Field(default=None, description="Secret access key.")
    engine: str = Field(
        default=engines.DEFAULT,
        description="Default OCR engine.",
    )
    profile: str = Field(
        default=engines.BALANCED,
        description="Default OCR profile: `fast`, `balanced` or `accurate`.",
    )
    corpus: Path | None = Field(
        default=None,
        description="Folder of pages with ground-truth text, for `python -m benchmarks ocr`.",
    )
    upload_max_bytes: int = Field(
        default=UPLOAD_MAX_BYTES, gt=0, description="Maximum size of an uploaded file."
    )
    max_direct_upload: int | None = Field(
        default=None,
        gt=0,
        description=(
            "Maximum size in bytes of an upload in one request, if a gateway limits requests; "
            "larger files are uploaded to a signed address."
        ),
    )
    max_direct_download: int | None = Field(
        default=None,
        gt=0,
        description=(
            "Maximum size in bytes of an export in a response, if a gateway limits responses; "
            "larger exports are downloaded from the file store."
        ),
    )
    gpu_service_url: HttpUrl | None = Field(
        default=None,
        description=(
            "URL of the GPU service; without it, workers read documents in their own child "
            "processes."
        ),
    )
    gpu_silence_seconds: float = Field(
        default=GPU_SILENCE_SECONDS,
        ge=10,
        description="Timeout for keep-alives from the GPU service, which sends one every 5 s.",
    )
    gpu_fetches_files: bool = Field(
        default=False,
        description=(
            "Whether the GPU service can reach the file store; it then receives signed URLs "
            "instead of files if the store supports them."
        ),
    )
    gpu_engine: str | None = Field(
        default=None,
        description=(
            "Engine of the GPU service: `batched`, or any engine that workers support. "
            "Default: `batched` with CUDA, `cascade` without."
        ),
    )
    gpu_documents: int = Field(
        default=GPU_DOCUMENTS,
        gt=0,
        description="Maximum number of documents that the GPU service reads concurrently.",
    )
    gpu_waiting: int = Field(
        default=GPU_WAITING,
        ge=0,
        description="Maximum number of documents queued in the GPU service; it rejects more.",
    )
    engine_calls_per_second: float | None = Field(
        default=None,
        gt=0,
        description=(
            "Rate limit for calls to remote engines, shared by all workers; none by default."
        ),
    )
    check_language: str | None = Field(
        default=None,
        description=(
            "Default language of check jobs, such as `fr`; without it, the language is checked "
            "only in jobs that specify one."
        ),
    )
    check_max_images: int = Field(
        default=CHECK_MAX_IMAGES,
        ge=1,
        le=1000,
        description="Maximum number of images in a check job.",
    )
    check_max_image_bytes: int = Field(
        default=CHECK_MAX_IMAGE_BYTES, gt=0, description="Maximum size of an image in a check job."
    )
    check_max_job_bytes: int = Field(
        default=CHECK_MAX_JOB_BYTES,
        gt=0,
        description="Maximum size of a check job, both compressed and extracted.",
    )
    check_max_pixels: int = Field(
        default=CHECK_MAX_PIXELS,
        gt=0,
        description="Maximum number of pixels per image in a check job.",
    )
    check_read_seconds: float = Field(
        default=CHECK_READ_SECONDS,
        gt=0,
        description="Timeout for one attempt to read an image in a check job.",
    )
    check_job_seconds: float = Field(
        default=CHECK_JOB_SECONDS,
        gt=0,
        description="Time after which an unfinished check job fails.",
    )
    check_result_days: float = Field(
        default=CHECK_RESULT_DAYS,
        gt=0,
        description="Days to keep the results of a finished check job.",
    )
    check_input_days: float = Field(
        default=CHECK_INPUT_DAYS,
        gt=0,
        description="Days to keep the images of a finished check job.",
    )
    bin_days: float | None = Field(
        default=None,
        gt=0,
        description="Days to keep documents in the bin; by default they are kept forever.",
    )
    error_days: float | None = Field(
        default=None,
        gt=0,
        description="Days to keep document errors; by default they are kept forever.",
    )
    webhook_days: float | None = Field(
        default=None,
        gt=0,
        description=(
            "Days to keep delivered and abandoned webhooks; by default they are kept forever."
        ),
    )
    message_days: float | None = Field(
        default=MESSAGE_DAYS,
        gt=0,
        description="Days to keep processed volume messages in the queue archives.",
    )
    webhooks_anywhere: bool = Field(
        default=False,
        description=(
            "Allow webhooks to private and loopback addresses; only for networks in which every "
            "user who submits documents may reach all services."
        ),
    )
    pubsub_audience: str | None = Field(
        default=None,
        description=(
            "Required audience of the tokens of Pub/Sub pushes; without it, pushes require the "
            "secret key instead."
        ),
    )
    pubsub_account: str | None = Field(
        default=None, description="E-mail address of the service account that sends Pub/Sub pushes."
    )
    pubsub_keys_url: HttpUrl = Field(
        default=PUBSUB_KEYS_URL, description="URL of the public keys that verify those tokens."
    )

    slack_webhook_url: SecretStr | None = Field(
        default=None,
        validation_alias=AliasChoices("PAGEWARDEN_SLACK_WEBHOOK_URL", "SLACK_WEBHOOK_URL"),
        description="Incoming webhook of a Slack channel for warnings.",
    )
    alert_webhook_url: SecretStr | None = Field(
        default=None,
        description="URL that receives critical alerts as signed webhooks.",
    )
    alert_email_to: str | None = Field(
        default=None,
        description="E-mail addresses that receive critical alerts, separated by commas.",
    )
    alert_email_from: str = Field(
        default="pagewarden@localhost", description="Sender address of those e-mails."
    )
    smtp_url: SecretStr | None = Field(
        default=None,
        description=("SMTP server for e-mails: `smtps://user:password@host` or `smtp://host:587`."),
    )

    log_format: Literal["console", "json"] | None = Field(
        default=None,
        description=(
            "Log format: `console` or `json`; by default `console` on a terminal and `json` "
            "elsewhere."
        ),
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="Minimum log level."
    )
    metrics_port: int | None = Field(
        default=None,
        ge=0,
        le=65535,
        description=(
            "Port on which workers and schedulers serve `/metrics`, or the next free one; 0 "
            "selects any free port. By default they do not serve metrics; the functions and the "
            "GPU service "
            "always do."
        ),
    )
    metrics_host: str = Field(
        default=METRICS_HOST,
        description="Address on which workers and schedulers serve `/metrics`.",
    )
    metrics_token: SecretStr | None = Field(
        default=None,
        description=(
            "Bearer token for requests to `/metrics` from other machines; the secret key is also "
            "accepted."
        ),
    )
    otlp_endpoint: HttpUrl | None = Field(
        default=None,
        validation_alias=AliasChoices("PAGEWARDEN_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"),
        description=("URL that receives traces by OTLP over HTTP; tracing is disabled without it."),
    )

    pool_lanes: str = Field(
        default="image,check,pdf,index,acte",
        description=(
            "Lanes that the workers of the pool serve, in order of preference, with optional "
            "weights such as `image=2`."
        ),
    )
    ocr_worker_pool_size: int | None = Field(
        default=None,
        ge=1,
        le=10_000,
        validation_alias=AliasChoices("OCR_WORKER_POOL_SIZE"),
        description=(
            "Number of pool workers in each process without OCR_WORKER_COUNT; by default as many "
            "as its machine can use."
        ),
    )
    ocr_worker_count: int | None = Field(
        default=None,
        ge=1,
        le=1000,
        validation_alias=AliasChoices("OCR_WORKER_COUNT"),
        description="Number of pool workers in this process; by default OCR_WORKER_POOL_SIZE.",
    )
    ocr_min_index_workers: int = Field(
        default=1,
        ge=0,
        validation_alias=AliasChoices("OCR_MIN_INDEX_WORKERS"),
        description="Minimum number of workers for lane `index`.",
    )
    ocr_min_acte_workers: int = Field(
        default=1,
        ge=0,
        validation_alias=AliasChoices("OCR_MIN_ACTE_WORKERS"),
        description="Minimum number of workers for lane `acte`.",
    )
    ocr_rebalance_interval_ms: int = Field(
        default=30_000,
        ge=100,
        le=3_600_000,
        validation_alias=AliasChoices("OCR_REBALANCE_INTERVAL_MS"),
        description="Interval between rebalances of the pool, in milliseconds.",
    )
    server_max_cpu: float | None = Field(
        default=None,
        gt=0,
        le=10_000,
        validation_alias=AliasChoices("SERVER_MAX_CPU"),
        description="CPUs that all programs of the pool together may use on this machine.",
    )
    server_max_ram: float | None = Field(
        default=None,
        gt=0,
        le=1_000_000,
        validation_alias=AliasChoices("SERVER_MAX_RAM"),
        description="Memory that all programs of the pool together may use on this machine, in GB.",
    )
    pool_folder: Path | None = Field(
        default=None,
        description=(
            "Folder in which the programs of the pool on this machine find out what the others "
            "use; by default in the folder for temporary files. Containers on one machine can "
            "share a volume."
        ),
    )

    volume_input: str | None = Field(
        default=None,
        description=(
            "Input bucket for page images, with a folder W…-I… for each volume: a folder or "
            "`s3://bucket/prefix`; by default the folder `volumes/input` in PAGEWARDEN_HOME."
        ),
    )
    volume_output: str | None = Field(
        default=None,
        description=(
            "Output bucket for artifacts: a folder or `s3://bucket/prefix`; by default the folder "
            "`volumes/output` in PAGEWARDEN_HOME."
        ),
    )
    volume_workers: int = Field(
        default=1,
        ge=0,
        le=1000,
        description="Number of workers that `pagewarden up` starts while there are volume jobs.",
    )
    volume_queue: Literal["pgmq", "sqs"] | None = Field(
        default=None,
        description=(
            "Volume queues: `pgmq` (in Postgres) or `sqs`; by default `sqs` if one of the "
            "following URLs is set, else `pgmq`."
        ),
    )
    sqs_queue_url: str | None = Field(
        default=None,
        validation_alias=AliasChoices("PAGEWARDEN_SQS_QUEUE_URL", "SQS_QUEUE_URL"),
        description="URL of the FIFO queue for a worker that serves one stage.",
    )
    sqs_line_detection_url: str | None = Field(
        default=None,
        validation_alias=AliasChoices(
            "PAGEWARDEN_SQS_LINE_DETECTION_URL", "SQS_LINE_DETECTION_URL"
        ),
        description="URL of the FIFO queue for stage `line_detection`.",
    )
    sqs_line_extraction_url: str | None = Field(
        default=None,
        validation_alias=AliasChoices(
            "PAGEWARDEN_SQS_LINE_EXTRACTION_URL", "SQS_LINE_EXTRACTION_URL"
        ),
        description="URL of the FIFO queue for stage `line_extraction`.",
    )
    sqs_ocr_url: str | None = Field(
        default=None,
        validation_alias=AliasChoices("PAGEWARDEN_SQS_OCR_URL", "SQS_OCR_URL"),
        description="URL of the FIFO queue for stage `ocr`.",
    )
    sqs_reduce_url: str | None = Field(
        default=None,
        validation_alias=AliasChoices("PAGEWARDEN_SQS_REDUCE_URL", "SQS_REDUCE_URL"),
        description="URL of the FIFO queue for stage `reduce`.",
    )
    sqs_endpoint: HttpUrl | None = Field(
        default=None,
        validation_alias=AliasChoices(
            "PAGEWARDEN_SQS_ENDPOINT", "AWS_ENDPOINT_URL_SQS", "AWS_ENDPOINT_URL"
        ),
        description="Endpoint of an SQS-compatible service other than Amazon SQS.",
    )
    sqs_region: str | None = Field(
        default=None,
        validation_alias=AliasChoices("PAGEWARDEN_SQS_REGION", "AWS_REGION", "AWS_DEFAULT_REGION"),
        description=(
            "AWS region of the SQS queues; credentials come from the environment or an IAM role."
        ),
    )

    @model_validator(mode="after")
    def _check_database(self) -> Self:
        if self.supabase_url and not self.supabase_key:
            raise ValueError(
                "PAGEWARDEN_SUPABASE_URL also requires PAGEWARDEN_SUPABASE_KEY; set both"
            )
        return self

    @model_validator(mode="after")
    def _check_intervals(self) -> Self:
        if self.lock_seconds < 2 * self.heartbeat_seconds:
            raise ValueError(
                "PAGEWARDEN_LOCK_SECONDS must be at least twice PAGEWARDEN_HEARTBEAT_SECONDS; "
                "otherwise a worker loses its document when one heartbeat is late"
            )
        return self

    @model_validator(mode="after")
    def _check_engine(self) -> Self:
        try:
            engines.find_engine(self.engine)
        except errors.EngineNotInstalled as exc:
            raise ValueError(f"PAGEWARDEN_ENGINE: {exc}") from exc
        if self.profile not in engines.PROFILES:
            raise ValueError(f"PAGEWARDEN_PROFILE must be one of {', '.join(engines.PROFILES)}")
        return self

    @model_validator(mode="after")
    def _check_check_jobs(self) -> Self:
        if self.check_input_days < self.check_result_days:
            raise ValueError(
                "PAGEWARDEN_CHECK_INPUT_DAYS must not be less than PAGEWARDEN_CHECK_RESULT_DAYS: "
                "results cannot be kept longer than their images"
            )
        if self.check_language:
            from pagewarden.checks.rules import languages  # noqa: PLC0415  # few processes need it

            try:
                languages.find_language(self.check_language)
            except languages.UnsupportedLanguage as exc:
                raise ValueError(f"PAGEWARDEN_CHECK_LANGUAGE: {exc}") from exc
        if self.pubsub_audience and not self.pubsub_account:
            raise ValueError(
                "PAGEWARDEN_PUBSUB_AUDIENCE also requires PAGEWARDEN_PUBSUB_ACCOUNT; set both"
            )
        return self

    @model_validator(mode="after")
    def _check_alerts(self) -> Self:
        if self.alert_email_to and self.smtp_url is None:
            raise ValueError(
                "PAGEWARDEN_ALERT_EMAIL_TO also requires PAGEWARDEN_SMTP_URL; set both"
            )
        if not _has_scheme(self.smtp_url, "smtp", "smtps"):
            raise ValueError("PAGEWARDEN_SMTP_URL must begin with smtp:// or smtps://")
        for name in ("slack_webhook_url", "alert_webhook_url"):
            if not _has_scheme(getattr(self, name), "https", "http"):
                raise ValueError(f"{PREFIX}{name.upper()} must begin with https:// or http://")
        return self

    @model_validator(mode="after")
    def _check_file_store(self) -> Self:
        if bool(self.s3_access_key_id) != bool(self.s3_secret_access_key):
            raise ValueError(
                "PAGEWARDEN_S3_ACCESS_KEY_ID and PAGEWARDEN_S3_SECRET_ACCESS_KEY require each "
                "other; set both or neither"
            )
        if bool(self.files_public_url) != bool(self.files_signing_key):
            raise ValueError(
                "PAGEWARDEN_FILES_PUBLIC_URL and PAGEWARDEN_FILES_SIGNING_KEY require each "
                "other; set both or neither"
            )
        key = self.files_signing_key
        if key and secrets.is_weak(key.get_secret_value()):
            raise ValueError(
                f"PAGEWARDEN_FILES_SIGNING_KEY is a default value or too weak; {_ADVICE}"
            )
        return self

    @model_validator(mode="after")
    def _check_webhook_secret(self) -> Self:
        secret = self.webhook_secret.get_secret_value() if self.webhook_secret else ""
        try:
            secrets.decode_webhook_secret(secret)
        except ValueError as exc:
            raise ValueError(
                "PAGEWARDEN_WEBHOOK_SECRET must be base64, optionally with the prefix whsec_; "
                "{_ADVICE}"
            ) from exc
        return self

    @model_validator(mode="after")
    def _reject_weak_secrets(self) -> Self:
        if self.supabase_url and secrets.is_loopback_url(self.supabase_url):
            return self
        for name in ("webhook_secret", "jwt_secret", "metrics_token", "database_webhook_secret"):
            secret = getattr(self, name)
            if secret and secrets.is_weak(secret.get_secret_value()):
                raise ValueError(
                    f"{PREFIX}{name.upper()} is a default value or too weak; {_ADVICE}"
                )
        # The keys of a Supabase project are made by Supabase, in any form.
        is_rejected = secrets.is_default if self.supabase_url else secrets.is_weak
        if self.supabase_key and is_rejected(self.supabase_key.get_secret_value()):
            raise ValueError(
                f"PAGEWARDEN_SUPABASE_KEY is a default value or too weak; {_ADVICE}, or use the "
                "key "
                "of your project"
            )
        return self

    def secrets(self) -> list[str]:
        """List the secrets that are set."""
        values = (getattr(self, name) for name in type(self).model_fields)
        return [value.get_secret_value() for value in values if isinstance(value, SecretStr)]


def _has_scheme(url: SecretStr | None, *schemes: str) -> bool:
    """Return whether a URL, if set, has one of the schemes."""
    prefixes = tuple(f"{scheme}://" for scheme in schemes)
    return not url or url.get_secret_value().startswith(prefixes)
