"""One settings class for every process; unknown PAGEWARDEN_* names are refused."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal, Self

from dotenv import dotenv_values
from pydantic import (
    AliasChoices,
    Field,
    HttpUrl,
    SecretStr,
    ValidationError,
    model_validator,
)
from pydantic_settings import BaseSettings, SettingsConfigDict

from pagewarden import errors, signatures, weak_secrets
from pagewarden.reading import engines
from pagewarden.telemetry import redaction

PREFIX = "PAGEWARDEN_"
ENV_FILE = ".env"

HEARTBEAT_SECONDS = 5.0
LOCK_SECONDS = 20.0
SWEEP_SECONDS = 5.0
UPLOAD_MAX_BYTES = 1_000_000_000

GPU_SERVICE_URL = "http://127.0.0.1:54330"
"""Where the GPU service of this machine is, unless it is set otherwise."""
GPU_SILENCE_SECONDS = 30.0
GPU_DOCUMENTS = 8
GPU_WAITING = 8

LISTEN_HOST = "127.0.0.1"
LISTEN_PORT = 54321
REQUESTS_PER_MINUTE = 1200
METRICS_HOST = "127.0.0.1"

DROPBOX_API_URL = HttpUrl("https://api.dropboxapi.com/")
DROPBOX_CONTENT_URL = HttpUrl("https://content.dropboxapi.com/")

GEMINI_MODEL = "gemini-2.5-flash"
GEMINI_BASE_URL = HttpUrl("https://generativelanguage.googleapis.com/")
GEMINI_REQUESTS_PER_MINUTE = 60
GEMINI_TIMEOUT_SECONDS = 120.0
GEMINI_PATIENCE_SECONDS = 300.0
GEMINI_MAX_RETRIES = 4
GEMINI_INPUT_PRICE = 0.30  # of GEMINI_MODEL
GEMINI_OUTPUT_PRICE = 2.50

CHECK_MAX_IMAGES = 50
CHECK_MAX_IMAGE_BYTES = 5_000_000
CHECK_MAX_JOB_BYTES = 100_000_000
CHECK_MAX_PIXELS = 50_000_000
CHECK_READ_SECONDS = 30.0
CHECK_JOB_SECONDS = 86_400.0
CHECK_RESULT_DAYS = 7.0
MESSAGE_DAYS = 30.0
CHECK_INPUT_DAYS = 30.0
PUBSUB_KEYS_URL = HttpUrl("https://www.googleapis.com/oauth2/v3/certs")


def default_home() -> Path:
    """Folder for the embedded server: /var/lib for root, the user's data folder otherwise.

    The server cannot run as root, so root's data is kept where another account can reach it
    without opening root's own folders.
    """
    if os.geteuid() == 0:
        return Path("/var/lib/pagewarden")
    base = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(base) / "pagewarden"


class Settings(BaseSettings):
    """Everything an operator can set, from the environment or a .env file."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX,
        env_file=ENV_FILE,
        extra="ignore",
        populate_by_name=True,
        frozen=True,
        hide_input_in_errors=True,  # which may be a password
    )

    home: Path = Field(
        default_factory=default_home, description="Folder of the embedded server; kept private."
    )
    database_url: SecretStr | None = Field(
        default=None,
        validation_alias=AliasChoices("PAGEWARDEN_DATABASE_URL", "DATABASE_URL"),
        description="Another Postgres instead of the embedded one (postgresql://…).",
    )
    supabase_url: str | None = Field(
        default=None,
        validation_alias=AliasChoices("PAGEWARDEN_SUPABASE_URL", "SUPABASE_URL"),
        description="Talk to this Supabase project over HTTP instead of directly to Postgres.",
    )
    supabase_key: SecretStr | None = Field(
        default=None,
        validation_alias=AliasChoices("PAGEWARDEN_SUPABASE_KEY", "SUPABASE_SERVICE_ROLE_KEY"),
        description="Secret key of that project; with it our services call each other.",
    )
    publishable_key: str | None = Field(
        default=None,
        validation_alias=AliasChoices("PAGEWARDEN_PUBLISHABLE_KEY", "SUPABASE_ANON_KEY"),
        description="Key that clients of people carry; it opens nothing by itself.",
    )
    jwt_secret: SecretStr | None = Field(
        default=None,
        validation_alias=AliasChoices("PAGEWARDEN_JWT_SECRET", "SUPABASE_JWT_SECRET"),
        description="Secret that tokens are signed with, where that is not done with key pairs.",
    )
    webhook_secret: SecretStr | None = Field(
        default=None,
        description=(
            "Secret that webhooks are signed with, so that receivers can tell ours; base64, with "
            "or without `whsec_` before it."
        ),
    )
    jwt_issuer: str | None = Field(
        default=None, description="Who must have issued a token (its claim `iss`), where it is set."
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
        description="How often one person may call the functions, at each process of them.",
    )
    site_url: str = Field(
        default_factory=lambda chosen: f"http://127.0.0.1:{chosen['listen_port']}",
        pattern=r"^https?://[^\s/]+$",
        description="Where people reach this system; links for them lead there.",
    )
    heartbeat_seconds: float = Field(
        default=HEARTBEAT_SECONDS, gt=0, description="How often a worker says that it is alive."
    )
    lock_seconds: float = Field(
        default=LOCK_SECONDS, gt=0, description="How long a lock lasts after the last heartbeat."
    )
    sweep_seconds: float = Field(
        default=SWEEP_SECONDS, gt=0, description="How often expired locks are looked for."
    )
    files: str | None = Field(
        default=None,
        description=(
            "Where files are kept: a folder, `dropbox:///folder` or `s3://bucket/prefix`; "
            "otherwise the folder `files` in PAGEWARDEN_HOME."
        ),
    )
    files_public_url: HttpUrl | None = Field(
        default=None,
        description="Where others find files of a folder; without it they get no signed URLs.",
    )
    files_signing_key: SecretStr | None = Field(
        default=None, description="Secret that signs those URLs."
    )
    dropbox_app_key: str | None = Field(
        default=None,
        validation_alias=AliasChoices("PAGEWARDEN_DROPBOX_APP_KEY", "DROPBOX_APP_KEY"),
        description="Key of the Dropbox app.",
    )
    dropbox_app_secret: SecretStr | None = Field(
        default=None,
        validation_alias=AliasChoices("PAGEWARDEN_DROPBOX_APP_SECRET", "DROPBOX_APP_SECRET"),
        description="Its secret; not needed for a refresh token got with PKCE.",
    )
    dropbox_refresh_token: SecretStr | None = Field(
        default=None,
        validation_alias=AliasChoices("PAGEWARDEN_DROPBOX_REFRESH_TOKEN", "DROPBOX_REFRESH_TOKEN"),
        description="Refresh token of the account whose Dropbox is used.",
    )
    dropbox_api_url: HttpUrl = Field(
        default=DROPBOX_API_URL, description="Where the Dropbox API is, or a proxy of it."
    )
    dropbox_content_url: HttpUrl = Field(
        default=DROPBOX_CONTENT_URL, description="Where Dropbox takes and hands out contents."
    )
    s3_endpoint: HttpUrl | None = Field(
        default=None,
        validation_alias=AliasChoices(
            "PAGEWARDEN_S3_ENDPOINT", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"
        ),
        description=(
            "Where the S3 is, if it is not Amazon's; of Supabase Storage: "
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
            "Id of the access key; without one, that of the environment (AWS_ACCESS_KEY_ID and "
            "so on) or the role of the machine is used."
        ),
    )
    s3_secret_access_key: SecretStr | None = Field(
        default=None, description="The access key itself."
    )
    engine: str = Field(
        default=engines.DEFAULT,
        description="What reads documents that do not wish otherwise.",
    )
    profile: str = Field(
        default=engines.BALANCED,
        description="Speed or accuracy, for documents that do not wish otherwise.",
    )
    corpus: Path | None = Field(
        default=None,
        description="Folder of pages with their true text, for `python -m benchmarks ocr`.",
    )
    upload_max_bytes: int = Field(
        default=UPLOAD_MAX_BYTES, gt=0, description="The largest file that is taken in."
    )
    gpu_service_url: HttpUrl | None = Field(
        default=None,
        description="Where the GPU service is; without it workers read in processes of their own.",
    )
    gpu_silence_seconds: float = Field(
        default=GPU_SILENCE_SECONDS,
        ge=10,
        description=(
            "How long the GPU service may be silent; it says every 5 seconds that it is alive."
        ),
    )
    gpu_fetches_files: bool = Field(
        default=False,
        description=(
            "The GPU service reaches the file store: send it signed URLs where there are any, "
            "and not the files."
        ),
    )
    gpu_engine: str | None = Field(
        default=None,
        description=(
            "What the GPU service reads with: `batched`, or an engine of the workers; otherwise "
            "`batched` where there is CUDA and `cascade` where there is none."
        ),
    )
    gpu_documents: int = Field(
        default=GPU_DOCUMENTS, gt=0, description="How many documents it reads at a time."
    )
    gpu_waiting: int = Field(
        default=GPU_WAITING, ge=0, description="How many more may wait in it; others are sent away."
    )
    gemini_api_key: SecretStr | None = Field(
        default=None,
        validation_alias=AliasChoices(
            "PAGEWARDEN_GEMINI_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY"
        ),
        description="Key of the Gemini API, for the engine `gemini`.",
    )
    gemini_model: str = Field(
        default=GEMINI_MODEL,
        pattern=r"^(models/|tunedModels/)?[\w-]+(\.[\w-]+)*$",
        description="The model that reads.",
    )
    gemini_base_url: HttpUrl = Field(
        default=GEMINI_BASE_URL, description="Where the Gemini API is, or a proxy of it."
    )
    gemini_extract_prompt: str | None = Field(
        default=None, description="What the model is told to read a page, instead of our own words."
    )
    gemini_boost_prompt: str | None = Field(
        default=None,
        description="What it is told to correct what it read, instead of our own words.",
    )
    gemini_requests_per_minute: int = Field(
        default=GEMINI_REQUESTS_PER_MINUTE,
        gt=0,
        description="How often one process asks at most; a page takes two requests.",
    )
    gemini_timeout_seconds: float = Field(
        default=GEMINI_TIMEOUT_SECONDS, gt=0, description="How long one answer may take."
    )
    gemini_patience_seconds: float = Field(
        default=GEMINI_PATIENCE_SECONDS,
        gt=0,
        description="How long a page may take with all its waits and tries.",
    )
    gemini_max_retries: int = Field(
        default=GEMINI_MAX_RETRIES,
        ge=0,
        description="How often a request that failed is made again at most.",
    )
    gemini_input_price: float = Field(
        default=GEMINI_INPUT_PRICE,
        ge=0,
        description="US dollars for a million tokens sent; goes with the model.",
    )
    gemini_output_price: float = Field(
        default=GEMINI_OUTPUT_PRICE,
        ge=0,
        description="US dollars for a million tokens answered; goes with the model.",
    )

    engine_calls_per_second: float | None = Field(
        default=None,
        gt=0,
        description=(
            "How often engines that are somewhere else are asked, by all workers together; "
            "without it, as often as each of them likes."
        ),
    )
    check_language: str | None = Field(
        default=None,
        description=(
            "The language of check jobs that name none, such as `fr`; without it, the language of "
            "their text is not checked."
        ),
    )
    check_max_images: int = Field(
        default=CHECK_MAX_IMAGES, ge=1, le=1000, description="Pictures of one check job."
    )
    check_max_image_bytes: int = Field(
        default=CHECK_MAX_IMAGE_BYTES, gt=0, description="The largest picture of a check job."
    )
    check_max_job_bytes: int = Field(
        default=CHECK_MAX_JOB_BYTES,
        gt=0,
        description="All that a check job may bring, packed and unpacked.",
    )
    check_max_pixels: int = Field(
        default=CHECK_MAX_PIXELS, gt=0, description="The most pixels of a picture of a check job."
    )
    check_read_seconds: float = Field(
        default=CHECK_READ_SECONDS,
        gt=0,
        description="How long reading a picture of a check job may take, each time.",
    )
    check_job_seconds: float = Field(
        default=CHECK_JOB_SECONDS,
        gt=0,
        description="A check job that has not ended by then has failed.",
    )
    check_result_days: float = Field(
        default=CHECK_RESULT_DAYS,
        gt=0,
        description="How long results of check jobs are kept after their end.",
    )
    check_input_days: float = Field(
        default=CHECK_INPUT_DAYS,
        gt=0,
        description="How long pictures of check jobs are kept after their end.",
    )
    bin_days: float | None = Field(
        default=None,
        gt=0,
        description="Documents that are so long in the bin are erased; without it, none is.",
    )
    error_days: float | None = Field(
        default=None, gt=0, description="How long errors of documents are kept; for ever without."
    )
    webhook_days: float | None = Field(
        default=None, gt=0, description="How long settled webhooks are kept; for ever without."
    )
    message_days: float | None = Field(
        default=MESSAGE_DAYS,
        gt=0,
        description="How long messages about volumes stay in their archives once dealt with.",
    )
    webhooks_anywhere: bool = Field(
        default=False,
        description=(
            "Webhooks may go to private and loopback addresses too; for networks in which "
            "nobody is to be protected from whoever submits documents."
        ),
    )
    pubsub_audience: str | None = Field(
        default=None,
        description="Audience that tokens of Pub/Sub pushes must have; without it they are not "
        "asked for, and the secret key is.",
    )
    pubsub_account: str | None = Field(
        default=None, description="E-mail of the service account that Pub/Sub pushes come from."
    )
    pubsub_keys_url: HttpUrl = Field(
        default=PUBSUB_KEYS_URL, description="Where the keys are that those tokens are signed with."
    )

    slack_webhook_url: SecretStr | None = Field(
        default=None,
        validation_alias=AliasChoices("PAGEWARDEN_SLACK_WEBHOOK_URL", "SLACK_WEBHOOK_URL"),
        description="Incoming webhook of a Slack channel, which is told of warnings.",
    )
    alert_webhook_url: SecretStr | None = Field(
        default=None,
        description="Address that is told of critical alerts, signed like all webhooks.",
    )
    alert_email_to: str | None = Field(
        default=None, description="Who is written to of critical alerts; several with commas."
    )
    alert_email_from: str = Field(
        default="pagewarden@localhost", description="Who those e-mails are from."
    )
    smtp_url: SecretStr | None = Field(
        default=None,
        description="Server that sends e-mails: `smtps://user:password@host` or `smtp://host:587`.",
    )

    log_format: Literal["console", "json"] | None = Field(
        default=None,
        description=(
            "How lines of logs are written: `console` or `json`; otherwise `console` on a terminal "
            "and `json` elsewhere."
        ),
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="The least important lines that are written."
    )
    metrics_port: int | None = Field(
        default=None,
        ge=0,
        le=65535,
        description=(
            "Port on which workers and schedulers serve `/metrics`, or the next that is free; 0 "
            "takes any. Without it they serve nothing; functions and GPU service always do."
        ),
    )
    metrics_host: str = Field(default=METRICS_HOST, description="Address of that port.")
    metrics_token: SecretStr | None = Field(
        default=None,
        description=(
            "With this, or the secret key, as Bearer `/metrics` is read from other machines."
        ),
    )
    otlp_endpoint: HttpUrl | None = Field(
        default=None,
        validation_alias=AliasChoices("PAGEWARDEN_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"),
        description="Where traces are sent by OTLP over HTTP; without it there are none.",
    )

    pool_lanes: str = Field(
        default="index,acte",
        description="Lanes that the pool serves; `image=2` is one whose documents count twice.",
    )
    ocr_worker_pool_size: int | None = Field(
        default=None,
        ge=1,
        le=10_000,
        validation_alias=AliasChoices("OCR_WORKER_POOL_SIZE"),
        description="Workers of the pool, on all machines together.",
    )
    ocr_worker_count: int | None = Field(
        default=None,
        ge=1,
        le=1000,
        validation_alias=AliasChoices("OCR_WORKER_COUNT"),
        description="Workers of the pool that this program runs.",
    )
    ocr_min_index_workers: int = Field(
        default=1,
        ge=0,
        validation_alias=AliasChoices("OCR_MIN_INDEX_WORKERS"),
        description="Workers that lane index always has.",
    )
    ocr_min_acte_workers: int = Field(
        default=1,
        ge=0,
        validation_alias=AliasChoices("OCR_MIN_ACTE_WORKERS"),
        description="Workers that lane acte always has.",
    )
    ocr_rebalance_interval_ms: int = Field(
        default=30_000,
        ge=100,
        le=3_600_000,
        validation_alias=AliasChoices("OCR_REBALANCE_INTERVAL_MS"),
        description="How often the pool is shared out anew, in milliseconds.",
    )
    server_max_cpu: float | None = Field(
        default=None,
        gt=0,
        le=10_000,
        validation_alias=AliasChoices("SERVER_MAX_CPU"),
        description="CPUs that the pool may use on this machine.",
    )
    server_max_ram: float | None = Field(
        default=None,
        gt=0,
        le=1_000_000,
        validation_alias=AliasChoices("SERVER_MAX_RAM"),
        description="Memory that the pool may use on this machine, in GB.",
    )

    volume_input: str | None = Field(
        default=None,
        description=(
            "Where page images of volumes are, each volume in a folder W…-I…: a folder or "
            "`s3://bucket/prefix`; otherwise the folder `volumes/input` in PAGEWARDEN_HOME."
        ),
    )
    volume_output: str | None = Field(
        default=None,
        description=(
            "Where artifacts of volumes go: a folder or `s3://bucket/prefix`; otherwise the folder "
            "`volumes/output` in PAGEWARDEN_HOME."
        ),
    )
    volume_workers: int = Field(
        default=1,
        ge=0,
        le=1000,
        description="Workers for volumes that `pagewarden up` starts while there are jobs.",
    )
    volume_queue: Literal["pgmq", "sqs"] | None = Field(
        default=None,
        description=(
            "Which queues volumes wait in: `pgmq`, in Postgres, or `sqs`; otherwise `sqs` where "
            "one of the following is set."
        ),
    )
    sqs_queue_url: str | None = Field(
        default=None,
        validation_alias=AliasChoices("PAGEWARDEN_SQS_QUEUE_URL", "SQS_QUEUE_URL"),
        description="The FIFO queue of a worker that serves one stage.",
    )
    sqs_line_detection_url: str | None = Field(
        default=None,
        validation_alias=AliasChoices(
            "PAGEWARDEN_SQS_LINE_DETECTION_URL", "SQS_LINE_DETECTION_URL"
        ),
        description="The FIFO queue of stage line_detection.",
    )
    sqs_line_extraction_url: str | None = Field(
        default=None,
        validation_alias=AliasChoices(
            "PAGEWARDEN_SQS_LINE_EXTRACTION_URL", "SQS_LINE_EXTRACTION_URL"
        ),
        description="The FIFO queue of stage line_extraction.",
    )
    sqs_ocr_url: str | None = Field(
        default=None,
        validation_alias=AliasChoices("PAGEWARDEN_SQS_OCR_URL", "SQS_OCR_URL"),
        description="The FIFO queue of stage ocr.",
    )
    sqs_reduce_url: str | None = Field(
        default=None,
        validation_alias=AliasChoices("PAGEWARDEN_SQS_REDUCE_URL", "SQS_REDUCE_URL"),
        description="The FIFO queue of stage reduce.",
    )
    sqs_endpoint: HttpUrl | None = Field(
        default=None,
        validation_alias=AliasChoices(
            "PAGEWARDEN_SQS_ENDPOINT", "AWS_ENDPOINT_URL_SQS", "AWS_ENDPOINT_URL"
        ),
        description="Where the SQS is, if it is not Amazon's.",
    )
    sqs_region: str | None = Field(
        default=None,
        validation_alias=AliasChoices("PAGEWARDEN_SQS_REGION", "AWS_REGION", "AWS_DEFAULT_REGION"),
        description="Region of the queues; keys come from the environment or the machine's role.",
    )

    @model_validator(mode="after")
    def _agree(self) -> Self:
        if self.supabase_url and not self.supabase_key:
            raise ValueError("PAGEWARDEN_SUPABASE_URL needs PAGEWARDEN_SUPABASE_KEY beside it")
        if self.lock_seconds < 2 * self.heartbeat_seconds:
            raise ValueError(
                "PAGEWARDEN_LOCK_SECONDS must be at least twice PAGEWARDEN_HEARTBEAT_SECONDS, "
                "or one slow heartbeat loses the document"
            )
        return self

    @model_validator(mode="after")
    def _read_with_what_there_is(self) -> Self:
        try:
            engines.find(self.engine)
        except errors.EngineMissing as exc:
            raise ValueError(f"PAGEWARDEN_ENGINE: {exc}") from exc
        if self.profile not in engines.PROFILES:
            raise ValueError(f"PAGEWARDEN_PROFILE must be one of {', '.join(engines.PROFILES)}")
        return self

    @model_validator(mode="after")
    def _agree_about_checks(self) -> Self:
        if self.check_input_days < self.check_result_days:
            raise ValueError(
                "PAGEWARDEN_CHECK_INPUT_DAYS must not be less than PAGEWARDEN_CHECK_RESULT_DAYS: "
                "results go with their pictures at the latest"
            )
        if self.check_language:
            from pagewarden.checks import languages  # noqa: PLC0415  # few programs need it

            try:
                languages.find(self.check_language)
            except languages.Unknown as exc:
                raise ValueError(f"PAGEWARDEN_CHECK_LANGUAGE: {exc}") from exc
        if self.pubsub_audience and not self.pubsub_account:
            raise ValueError("PAGEWARDEN_PUBSUB_AUDIENCE needs PAGEWARDEN_PUBSUB_ACCOUNT beside it")
        return self

    @model_validator(mode="after")
    def _agree_about_alerts(self) -> Self:
        if self.alert_email_to and self.smtp_url is None:
            raise ValueError("PAGEWARDEN_ALERT_EMAIL_TO needs PAGEWARDEN_SMTP_URL beside it")
        url = self.smtp_url.get_secret_value() if self.smtp_url else "smtp://"
        if not url.startswith(("smtp://", "smtps://")):
            raise ValueError("PAGEWARDEN_SMTP_URL must begin with smtp:// or smtps://")
        for address in (self.slack_webhook_url, self.alert_webhook_url):
            if address and not address.get_secret_value().startswith(("https://", "http://")):
                raise ValueError("addresses that are told of alerts begin with https:// or http://")
        return self

    @model_validator(mode="after")
    def _agree_about_files(self) -> Self:
        if bool(self.s3_access_key_id) != bool(self.s3_secret_access_key):
            raise ValueError(
                "PAGEWARDEN_S3_ACCESS_KEY_ID and PAGEWARDEN_S3_SECRET_ACCESS_KEY need each other"
            )
        if bool(self.files_public_url) != bool(self.files_signing_key):
            raise ValueError(
                "PAGEWARDEN_FILES_PUBLIC_URL and PAGEWARDEN_FILES_SIGNING_KEY need each other"
            )
        key = self.files_signing_key
        if key and weak_secrets.is_weak(key.get_secret_value()):
            raise ValueError(
                "PAGEWARDEN_FILES_SIGNING_KEY is a default or too weak; make one with "
                '"openssl rand -base64 48"'
            )
        return self

    @model_validator(mode="after")
    def _sign_webhooks(self) -> Self:
        try:
            signatures.key_of(self.webhook_secret.get_secret_value() if self.webhook_secret else "")
        except ValueError as exc:
            raise ValueError(
                "PAGEWARDEN_WEBHOOK_SECRET must be base64, with or without whsec_ before it, or "
                'receivers could not use it; make one with "openssl rand -base64 48"'
            ) from exc
        return self

    @model_validator(mode="after")
    def _refuse_weak_secrets(self) -> Self:
        if self.supabase_url and weak_secrets.is_this_machine(self.supabase_url):
            return self
        advice = 'is a default or too weak; make one with "openssl rand -base64 48"'
        if self.webhook_secret and weak_secrets.is_weak(self.webhook_secret.get_secret_value()):
            raise ValueError(f"PAGEWARDEN_WEBHOOK_SECRET {advice}")
        if self.jwt_secret and weak_secrets.is_weak(self.jwt_secret.get_secret_value()):
            raise ValueError(f"PAGEWARDEN_JWT_SECRET {advice}")
        if self.metrics_token and weak_secrets.is_weak(self.metrics_token.get_secret_value()):
            raise ValueError(f"PAGEWARDEN_METRICS_TOKEN {advice}")
        # A project makes its keys itself, and they look as it likes.
        refused = weak_secrets.is_default if self.supabase_url else weak_secrets.is_weak
        if self.supabase_key and refused(self.supabase_key.get_secret_value()):
            raise ValueError(f"PAGEWARDEN_SUPABASE_KEY {advice}, or take that of your project")
        return self

    def secrets(self) -> list[str]:
        """List the secrets that are set."""
        values = (getattr(self, name) for name in type(self).model_fields)
        return [value.get_secret_value() for value in values if isinstance(value, SecretStr)]


def load() -> Settings:
    """Read the settings, or say which one is wrong and how to mend it.

    From then on their secrets are in no log.
    """
    known = {PREFIX + name.upper() for name in Settings.model_fields}
    given = {*os.environ, *dotenv_values(ENV_FILE)}
    unknown = sorted(name for name in given if name.startswith(PREFIX) and name not in known)
    if unknown:
        raise errors.SettingsError(
            f"unknown setting {', '.join(unknown)}; known are {', '.join(sorted(known))}"
        )
    try:
        loaded = Settings()
    except ValidationError as exc:
        problems = "; ".join(
            f"{'.'.join(map(str, e['loc'])) or 'settings'}: {e['msg']}" for e in exc.errors()
        )
        raise errors.SettingsError(problems) from exc
    redaction.register_secrets(*loaded.secrets())
    return loaded
