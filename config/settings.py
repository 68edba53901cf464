"""All settings, typed: environment variables in, Django settings out. `docs/configuration.md` is printed from here.

A missing, malformed or unknown variable stops the start with a sentence that names it (`SettingsError`).
"""

import difflib
import os
import re
from pathlib import Path
from typing import Annotated, Any, Literal, Self
from urllib.parse import unquote, urlsplit
from uuid import UUID

from pydantic import AfterValidator, Field, PostgresDsn, SecretStr, ValidationError, model_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from core import logs, tracing
from core.errors import SettingsError

BASE_DIR = Path(__file__).resolve().parent.parent
_DEVELOPMENT_SECRET = "development-only-" + "0" * 40
_DEVELOPMENT_HOSTS = "127.0.0.1,localhost"
_DEVELOPMENT_SHOWCASE = "http://127.0.0.1:8000/api/v1/slots"


def _bootstrap_servers(value: str) -> str:
    if not all(re.fullmatch(r"[^\s:,]+:\d{1,5}", server) for server in value.split(",")):
        raise ValueError("must be host:port, or several of them separated by commas")
    return value


def _jwks_url(value: str) -> str:
    if value and not re.fullmatch(r"https?://[^\s/]+(/\S*)?", value):
        raise ValueError("must be an http(s) URL")
    return value


def _mail_address(value: str) -> str:
    if not re.fullmatch(r"[^<>\r\n]*<[^<>@\s]+@[^<>@\s]+>|[^<>@\s]+@[^<>@\s]+", value):
        raise ValueError("must be an address, alone or as Name <name@domain>")
    return value


def _showcase_url(value: str) -> str:
    parts = urlsplit(value)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("must be an http or https URL")
    return value


Seconds = Annotated[float, Field(gt=0, le=86_400, allow_inf_nan=False)]


class Environment(BaseSettings):
    """One field a variable, the variable's name in capitals; the description is its row in the configuration table."""

    model_config = SettingsConfigDict(frozen=True, case_sensitive=False, extra="ignore", secrets_dir=None)

    pin_environment: Literal["development", "production"] = Field(
        "development",
        description="`production` refuses DEBUG, embedded servers, and defaults that suit one machine only.",
    )
    pin_process_name: str = Field(
        "pin-calendar", description="The name of the process's sessions in PostgreSQL (`application_name`)."
    )
    debug: bool = Field(False, description="Django's debug pages; refused in production.")
    secret_key: SecretStr = Field(
        SecretStr(_DEVELOPMENT_SECRET), min_length=32, description="Django's secret; must be set in production."
    )
    allowed_hosts: str = Field(
        _DEVELOPMENT_HOSTS, description="Host names that the web answers to, by commas; must be set in production."
    )
    database_url: PostgresDsn = Field(
        description="PostgreSQL 16 or later, as postgresql://user:password@host:port/name; more hosts by commas, "
        "with ?target_session_attrs=read-write, so that a standby is passed over."
    )
    database_connect_timeout_seconds: int = Field(
        3, ge=1, le=60, description="Limit for opening a connection, of each host."
    )
    database_statement_timeout_ms: int = Field(30_000, ge=0, description="Limit of one statement; 0 is none.")
    database_lock_timeout_ms: int = Field(5_000, ge=0, description="Longest wait for a lock; 0 is no limit.")
    database_prepare_threshold: int = Field(
        5,
        ge=0,
        description="A statement that a session has run this often is prepared; 0 is never (poolers).",
    )
    database_idle_in_transaction_timeout_ms: int = Field(
        60_000, ge=0, description="The server ends a session that idles this long inside a transaction; 0 is never."
    )
    kafka_bootstrap_servers: Annotated[str, AfterValidator(_bootstrap_servers)] = Field(
        description="Kafka brokers, as host:port separated by commas."
    )
    kafka_profile: Literal["kafka", "embedded"] = Field(
        "kafka", description="`embedded` adds the client settings that the embedded broker of demo and tests needs."
    )
    kafka_security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = Field(
        "PLAINTEXT", description="How clients speak to Kafka: with TLS (SSL), a password (SASL), both or neither."
    )
    kafka_ssl_ca_location: str = Field(
        "", description="File of the certificates that Kafka's TLS is checked against; empty is the system's."
    )
    kafka_sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] = Field(
        "SCRAM-SHA-512", description="How the password is proven to Kafka."
    )
    kafka_sasl_username: str = Field("", description="Kafka's user; needed with SASL.")
    kafka_sasl_password: SecretStr = Field(SecretStr(""), description="That user's password; needed with SASL.")
    kafka_consumer_group_prefix: str = Field(
        "pin-calendar-",
        pattern=r"^[A-Za-z0-9._-]*$",
        max_length=64,
        description="Begins the names of the consumer groups, and so of their dead-letter topics.",
    )
    kafka_topic_partitions: int = Field(
        12, ge=1, le=1_000, description="Partitions of a topic that ensure_topics makes."
    )
    kafka_topic_replication: int = Field(1, ge=1, le=9, description="Replicas of a topic that ensure_topics makes.")
    kafka_topic_retention_hours: int = Field(168, ge=1, description="Retention of a topic that ensure_topics makes.")
    pin_platform_tenant_id: UUID = Field(
        UUID("00000000-0000-7000-8000-000000000001"), description="The tenant of PIN's own consultants."
    )
    appointment_timeout_interval_seconds: Seconds = Field(60, description="Pause between ticks of the timeout worker.")
    appointment_timeout_batch_size: int = Field(
        200, ge=1, le=100_000, description="Appointments expired a cycle at most."
    )
    appointment_timeout_max_duration_seconds: Seconds = Field(
        30, description="Past it a cycle starts no further item; the next cycle takes the rest."
    )
    appointment_min_decision_minutes: int = Field(
        0, ge=0, le=1_440, description="A request whose deadline would be nearer than this is refused."
    )
    max_pending_per_client_and_owner: int = Field(
        5, ge=1, le=10_000, description="Pending requests of one client to one owner at most."
    )
    reminder_dispatch_interval_seconds: Seconds = Field(60, description="Pause between ticks of the dispatcher.")
    reminder_dispatch_batch_size: int = Field(500, ge=1, le=100_000, description="Reminders sent a transaction.")
    reminder_dispatch_max_duration_seconds: Seconds = Field(
        300, description="Past it a run of the dispatcher starts no further batch."
    )
    reminder_stale_after_minutes: int = Field(
        10, ge=0, le=40_320, description="A reminder is not sent when its event ended longer ago; at least two ticks."
    )
    outbox_retention_days: int = Field(7, ge=1, le=3_650, description="Published messages are kept this long.")
    outbox_max_message_bytes: int = Field(
        900_000, ge=1_000, le=10_000_000, description="A larger payload is an error of the change that publishes it."
    )
    outbox_poll_interval_seconds: Seconds = Field(
        0.25, description="Pause between polls of the relay without a wake-up."
    )
    notifications_interval_seconds: Seconds = Field(
        5, description="Longest pause of run_notifications between looks at the deliveries that are due."
    )
    notifications_batch_size: int = Field(
        500, ge=1, le=100_000, description="Messages read, and deliveries sent, in a cycle at most."
    )
    notifications_max_duration_seconds: Seconds = Field(
        30, description="Past it a cycle of run_notifications starts no further message or delivery."
    )
    notifications_max_attempts: int = Field(
        8, ge=1, le=100, description="Attempts after which a delivery that keeps failing is parked."
    )
    notifications_retry_seconds: Seconds = Field(
        30, description="Pause before the second attempt; it doubles from one to the next, up to an hour, with jitter."
    )
    notifications_stale_after_minutes: int = Field(
        120, ge=0, le=40_320, description="A reminder of what began longer ago is recorded and not sent."
    )
    deliveries_retention_days: int = Field(180, ge=1, le=3_650, description="What was told to whom is kept this long.")
    email_host: str = Field(
        "", description="SMTP server; empty shows mails on stderr in development and is no e-mail in production."
    )
    email_port: int = Field(587, ge=1, le=65_535, description="Port of the SMTP server.")
    email_host_user: str = Field("", description="User at the SMTP server; empty is no log-in.")
    email_host_password: SecretStr = Field(SecretStr(""), description="Password at the SMTP server.")
    email_tls: Literal["none", "starttls", "tls"] = Field(
        "starttls", description="`starttls` on the usual port, `tls` from the start (port 465), or neither."
    )
    # A mail waits for some ten answers: in all for less than the lease of its delivery, or another process sends it.
    email_timeout_seconds: float = Field(
        10, gt=0, le=25, allow_inf_nan=False, description="Longest wait for an answer of the SMTP server."
    )
    email_from: Annotated[str, AfterValidator(_mail_address)] = Field(
        "PIN <calendar@pin.example>", description="From whom mails come; its domain is that of their Message-ID."
    )
    showcase_url: Annotated[str, AfterValidator(_showcase_url)] = Field(
        _DEVELOPMENT_SHOWCASE,
        description="Where clients choose slots; mails link there with `ownerId` added. Must be set in production.",
    )
    crm_sync_interval_seconds: Seconds = Field(5, description="Longest pause of run_crm_sync between its cycles.")
    crm_sync_batch_size: int = Field(500, ge=1, le=100_000, description="Messages read in a cycle at most.")
    crm_sync_max_duration_seconds: Seconds = Field(
        30, description="Past it a cycle of run_crm_sync starts no further message."
    )
    job_runs_retention_days: int = Field(30, ge=1, le=3_650, description="Recorded worker cycles are kept this long.")
    liveness_seconds: Seconds = Field(
        120, description="/livez fails when the worker's loop has not beaten for this long."
    )
    metrics_host: str = Field("127.0.0.1", description="Address of the workers' metrics server; 0.0.0.0 in containers.")
    api_lock_timeout_ms: int = Field(
        2_000,
        ge=1,
        le=60_000,
        description="A request waits for rows in other hands this long in all, then answers busy.",
    )
    api_max_body_bytes: int = Field(262_144, ge=1_024, description="A larger request body is refused.")
    api_requests_per_minute_and_user: int = Field(
        1_200, ge=0, description="Requests of one user a minute, counted by process; 0 is no limit."
    )
    api_requests_per_minute_and_address: int = Field(
        6_000, ge=0, description="Requests of one address a minute, counted by process; 0 is no limit."
    )
    api_trusted_proxies: int = Field(
        0, ge=0, le=10, description="Proxies in front whose X-Forwarded-For is believed for the address."
    )
    jwt_jwks_url: Annotated[str, AfterValidator(_jwks_url)] = Field(
        "", description="Keys of the identity provider (JWKS); empty is the development key, which production refuses."
    )
    jwt_issuer: str = Field("pin-identity", min_length=1, description="The `iss` of the tokens that are accepted.")
    jwt_audience: str = Field("pin-calendar", min_length=1, description="The `aud` of the tokens that are accepted.")
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field("INFO", description="Least level that is logged.")
    otlp_endpoint: str = Field("", description="Base URL of an OpenTelemetry collector (OTLP over HTTP); empty is off.")

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Only what `load` was given: the process's own environment must not seep in beside it."""
        return (init_settings,)

    @model_validator(mode="after")
    def _stale_limit_covers_two_ticks(self) -> Self:
        """A reminder that is merely late by normal polling must never count as stale."""
        if self.reminder_stale_after_minutes * 60 < 2 * self.reminder_dispatch_interval_seconds:
            raise ValueError(
                "REMINDER_STALE_AFTER_MINUTES must be at least two ticks of REMINDER_DISPATCH_INTERVAL_SECONDS"
            )
        return self

    @model_validator(mode="after")
    def _sasl_has_a_user(self) -> Self:
        if self.kafka_security_protocol.startswith("SASL"):
            if not self.kafka_sasl_username:
                raise ValueError("KAFKA_SASL_USERNAME must be set when KAFKA_SECURITY_PROTOCOL is one with SASL")
            if not self.kafka_sasl_password.get_secret_value():
                raise ValueError("KAFKA_SASL_PASSWORD must be set when KAFKA_SECURITY_PROTOCOL is one with SASL")
        return self

    @model_validator(mode="after")
    def _production_is_not_a_playground(self) -> Self:
        if self.pin_environment == "production":
            if self.debug:
                raise ValueError("DEBUG must be off when PIN_ENVIRONMENT is production")
            if self.secret_key.get_secret_value() == _DEVELOPMENT_SECRET:
                raise ValueError("SECRET_KEY must be set when PIN_ENVIRONMENT is production")
            if self.kafka_profile == "embedded":
                raise ValueError("KAFKA_PROFILE must not be embedded when PIN_ENVIRONMENT is production")
            if not self.jwt_jwks_url.startswith("https://"):
                raise ValueError("JWT_JWKS_URL must be an https URL when PIN_ENVIRONMENT is production")
            if self.allowed_hosts == _DEVELOPMENT_HOSTS or not self.allowed_hosts.strip(" ,"):
                raise ValueError("ALLOWED_HOSTS must be set when PIN_ENVIRONMENT is production")
            if self.showcase_url == _DEVELOPMENT_SHOWCASE:
                raise ValueError("SHOWCASE_URL must be set when PIN_ENVIRONMENT is production")
        return self


# Variables with these beginnings are ours alone, so any unknown one is a slip; elsewhere only a near miss is.
_OWN_PREFIXES = (
    "APPOINTMENT_",
    "REMINDER_",
    "OUTBOX_",
    "JOB_RUNS_",
    "MAX_PENDING_",
    "NOTIFICATIONS_",
    "CRM_SYNC_",
    "JWT_",
)
# What Kubernetes and Compose add for a service of that name.
_SERVICE_LINK = re.compile(r"_SERVICE_(HOST|PORT)(_\w+)?$|_PORT(_\d+_(TCP|UDP)(_\w+)?)?$")


def _unknown_variables(names: set[str], known: set[str]) -> list[str]:
    sentences = []
    for name in sorted(names - known):
        if _SERVICE_LINK.search(name):
            continue
        near = difflib.get_close_matches(name, known, n=1, cutoff=0.9)
        if near or name.startswith(_OWN_PREFIXES):
            hint = f"; did you mean {near[0]}?" if near else ""
            sentences.append(f"{name} is not a setting of this program{hint}")
    return sentences


def load(environ: dict[str, str]) -> Environment:
    """The settings in `environ`; raises SettingsError with a sentence for each variable at fault."""
    known = {name.upper() for name in Environment.model_fields}
    present = {name.upper(): value for name, value in environ.items()}
    sentences = _unknown_variables(set(present), known)
    try:
        settings = Environment.model_validate({n.lower(): v for n, v in present.items() if n in known})
    except ValidationError as error:
        for fault in error.errors(include_input=False, include_url=False):
            name = str(fault["loc"][0]).upper() if fault["loc"] else ""
            what = "is missing" if fault["type"] == "missing" else fault["msg"].removeprefix("Value error, ")
            sentences.append(f"{name}: {what}" if name else what)
    if sentences:
        raise SettingsError("\n".join(sentences))
    return settings


def _database(url: PostgresDsn, env: Environment) -> dict[str, Any]:
    hosts = url.hosts()  # several of them share the first one's user, as libpq has it
    query = dict(url.query_params())
    timeouts = {
        "statement_timeout": env.database_statement_timeout_ms,
        "lock_timeout": env.database_lock_timeout_ms,
        "idle_in_transaction_session_timeout": env.database_idle_in_transaction_timeout_ms,
    }
    return {
        "ENGINE": "django_prometheus.db.backends.postgresql",
        "NAME": unquote((url.path or "").lstrip("/")),
        "USER": unquote(hosts[0]["username"] or ""),
        "PASSWORD": unquote(hosts[0]["password"] or ""),
        # The brackets of an IPv6 address belong to the URL.
        "HOST": ",".join((host["host"] or "").strip("[]") for host in hosts),
        "PORT": ",".join(str(host["port"] or "") for host in hosts),
        "CONN_MAX_AGE": 60,
        "CONN_HEALTH_CHECKS": True,
        "DISABLE_SERVER_SIDE_CURSORS": True,
        "OPTIONS": {
            "prepare_threshold": env.database_prepare_threshold or None,
            "connect_timeout": env.database_connect_timeout_seconds,
            "tcp_user_timeout": 5_000,
            "keepalives_idle": 10,
            "keepalives_interval": 2,
            "keepalives_count": 3,
            "application_name": env.pin_process_name,
            "options": " ".join(f"-c {name}={value}" for name, value in timeouts.items()),
            **query,
        },
    }


ENV = load(dict(os.environ))
logs.configure(level=ENV.log_level)
if ENV.otlp_endpoint:
    tracing.configure(otlp_endpoint=ENV.otlp_endpoint, service_name="pin-calendar")

DEBUG = ENV.debug
SECRET_KEY = ENV.secret_key.get_secret_value()
ALLOWED_HOSTS = [host.strip() for host in ENV.allowed_hosts.split(",") if host.strip()]
DATABASES = {"default": _database(ENV.database_url, ENV)}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
INSTALLED_APPS = [
    "backoffice",  # before the admin, whose templates it overrides
    "backoffice.apps.SiteConfig",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.postgres",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "rest_framework",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "django_prometheus",
    "workers",
    "api",
    "outbox",
    "audit",
    "reminders",
    "pin_calendar",
    "appointments",
    "notifications",
    "crm",
    "ops",
]
MIDDLEWARE = [
    "ops.probes.Probes",
    "django_prometheus.middleware.PrometheusBeforeMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_prometheus.middleware.PrometheusAfterMiddleware",
]
ROOT_URLCONF = "config.urls"
WSGI_APPLICATION = "config.wsgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]
LANGUAGE_CODE = "en"
FORMAT_MODULE_PATH = ["backoffice.formats"]
USE_TZ = True
TIME_ZONE = "UTC"
DEFAULT_FROM_EMAIL = ENV.email_from
EMAIL_BACKEND = f"django.core.mail.backends.{'smtp' if ENV.email_host else 'console'}.EmailBackend"
EMAIL_HOST = ENV.email_host
EMAIL_PORT = ENV.email_port
EMAIL_HOST_USER = ENV.email_host_user
EMAIL_HOST_PASSWORD = ENV.email_host_password.get_secret_value()
EMAIL_USE_TLS = ENV.email_tls == "starttls"
EMAIL_USE_SSL = ENV.email_tls == "tls"
EMAIL_TIMEOUT = ENV.email_timeout_seconds
# Mails that are shown instead of sent would put addresses into production's logs.
_HAS_EMAIL = bool(ENV.email_host) or ENV.pin_environment != "production"
NOTIFICATION_CHANNELS = {"email": "notifications.channels.Email"} if _HAS_EMAIL else {}
NOTIFICATION_FREE_SLOTS = "ops.free_slots.find"
STATIC_URL = "static/"
STATIC_ROOT = BASE_DIR / "static"
LOGGING_CONFIG = None
PROMETHEUS_EXPORT_MIGRATIONS = False

CACHES = {
    "default": {
        "BACKEND": "django.core.cache.backends.locmem.LocMemCache",
        "OPTIONS": {"MAX_ENTRIES": 100_000},  # the default of 300 would forget who asked how often
    }
}
REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": ["api.authentication.BearerToken"],
    "DEFAULT_PARSER_CLASSES": ["api.parsing.JsonParser"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_CONTENT_NEGOTIATION_CLASS": "api.negotiation.AlwaysJson",
    "DEFAULT_THROTTLE_CLASSES": ["api.throttling.ByAddress", "api.throttling.ByUser"],
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
    "EXCEPTION_HANDLER": "api.problems.handle",
    "NUM_PROXIES": ENV.api_trusted_proxies,
    "UNAUTHENTICATED_USER": None,
}
SPECTACULAR_SETTINGS = {
    "TITLE": "Pin Calendar",
    "DESCRIPTION": (
        "Slots, bookings, appointments and events. Times are UTC on the way out and need Z or an offset on the way in. "
        "Every error is application/problem+json with a stable `code`."
    ),
    "VERSION": "1",
    "OAS_VERSION": "3.1.1",
    "SCHEMA_PATH_PREFIX": "/api/v1",
    "PATH_CONVERTER_OVERRIDES": {"id": {"type": "string", "format": "uuid"}},
    "SERVE_INCLUDE_SCHEMA": False,
    "COMPONENT_SPLIT_REQUEST": True,
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
    "SWAGGER_UI_SETTINGS": {"persistAuthorization": True},
    "ENUM_NAME_OVERRIDES": {
        "SlotStatus": "pin_calendar.models.SlotStatus",
        "EventStatus": "pin_calendar.models.EventStatus",
        "EventOrigin": "pin_calendar.models.EventOrigin",
        "ReminderStatus": "reminders.models.ReminderStatus",
        "SkipReason": "reminders.models.SkipReason",
        "AppointmentStatus": "appointments.models.AppointmentStatus",
        "CancelledBy": "appointments.models.CancelledBy",
    },
    "POSTPROCESSING_HOOKS": [
        "drf_spectacular.hooks.postprocess_schema_enums",
        "api.schema.describe_bodies",
    ],
}

_PRODUCTION = ENV.pin_environment == "production"
WHITENOISE_USE_FINDERS = not _PRODUCTION  # static files without collectstatic
SECURE_SSL_REDIRECT = _PRODUCTION
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
SECURE_HSTS_SECONDS = 31_536_000 if _PRODUCTION else 0
SECURE_HSTS_INCLUDE_SUBDOMAINS = _PRODUCTION
SECURE_HSTS_PRELOAD = _PRODUCTION
SESSION_COOKIE_SECURE = _PRODUCTION
CSRF_COOKIE_SECURE = _PRODUCTION
