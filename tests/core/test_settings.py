"""`config.settings.load`: what a wrong environment is told, and what is none of our business."""

import os
import subprocess
import sys

import pytest

from config import settings
from config.settings import load
from core.errors import SettingsError

NEEDED = {
    "DATABASE_URL": "postgresql://pin:secret@db:5432/calendar",
    "KAFKA_BOOTSTRAP_SERVERS": "kafka-1:9092,kafka-2:9092",
}
PRODUCTION = {
    **NEEDED,
    "PIN_ENVIRONMENT": "production",
    "SECRET_KEY": "k" * 32,
    "JWT_JWKS_URL": "https://identity.example/keys",
    "ALLOWED_HOSTS": "calendar.example",
    "SHOWCASE_URL": "https://pin.example/showcase",
}


def refusal(**environ: str) -> str:
    with pytest.raises(SettingsError) as refused:
        load({**NEEDED, **environ})
    return str(refused.value)


def test_two_variables_are_needed_and_the_rest_has_defaults():
    env = load(NEEDED)

    assert (env.pin_environment, env.debug, env.reminder_dispatch_batch_size, env.reminder_stale_after_minutes) == (
        "development",
        False,
        500,
        10,
    )


def test_all_missing_and_malformed_variables_are_named_at_once():
    with pytest.raises(SettingsError) as refused:
        load({"KAFKA_BOOTSTRAP_SERVERS": "kafka", "REMINDER_DISPATCH_BATCH_SIZE": "many"})

    lines = str(refused.value).splitlines()
    assert lines[0] == "DATABASE_URL: is missing"
    assert lines[1].startswith("KAFKA_BOOTSTRAP_SERVERS: must be host:port")
    assert lines[2].startswith("REMINDER_DISPATCH_BATCH_SIZE: ")
    assert len(lines) == 3


def test_a_sentence_never_repeats_the_value():
    assert "hunter2" not in refusal(DATABASE_URL="mysql://root:hunter2@db/x", SECRET_KEY="hunter2")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("REMINDER_DISPATCH_INTERVAL_SECONDS", "0"),
        ("REMINDER_DISPATCH_INTERVAL_SECONDS", "nan"),
        ("REMINDER_DISPATCH_INTERVAL_SECONDS", "inf"),
        ("REMINDER_DISPATCH_BATCH_SIZE", "0"),
        ("REMINDER_DISPATCH_BATCH_SIZE", "1.5"),
        ("REMINDER_STALE_AFTER_MINUTES", "-1"),
        ("OUTBOX_RETENTION_DAYS", ""),
        ("OUTBOX_MAX_MESSAGE_BYTES", "10000001"),
        ("EMAIL_TIMEOUT_SECONDS", "26"),
        ("PIN_ENVIRONMENT", "staging"),
        ("PIN_PLATFORM_TENANT_ID", "pin"),
        ("LOG_LEVEL", "info"),
        ("DEBUG", "perhaps"),
        ("KAFKA_BOOTSTRAP_SERVERS", "a:1, b:2"),
        ("SECRET_KEY", "short"),
    ],
)
def test_a_malformed_value_is_refused_by_its_variables_name(name, value):
    [sentence] = refusal(**{name: value}).splitlines()
    assert sentence.startswith(f"{name}: ")


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("REMINDER_DISPATCH_BATCHSIZE", "REMINDER_DISPATCH_BATCH_SIZE"),
        ("APPOINTMENT_TIMEOUT_INTERVAL_SECOND", "APPOINTMENT_TIMEOUT_INTERVAL_SECONDS"),
        ("DATABASE_CONECT_TIMEOUT_SECONDS", "DATABASE_CONNECT_TIMEOUT_SECONDS"),
        ("KAFKA_BOOTSTRAP_SERVER", "KAFKA_BOOTSTRAP_SERVERS"),
        ("ALLOWED_HOST", "ALLOWED_HOSTS"),
    ],
)
def test_a_near_miss_is_refused_and_the_right_name_offered(name, meant):
    assert refusal(**{name: "1"}) == f"{name} is not a setting of this program; did you mean {meant}?"


@pytest.mark.parametrize("name", ["REMINDER_COLOUR", "OUTBOX_X", "APPOINTMENT_HOURS", "JOB_RUNS_KEPT"])
def test_an_unknown_variable_with_one_of_our_beginnings_is_refused(name):
    assert refusal(**{name: "1"}) == f"{name} is not a setting of this program"


def test_foreign_variables_and_service_links_are_none_of_our_business():
    foreign = {
        "PATH": "/bin",
        "HOME": "/",
        "DJANGO_SETTINGS_MODULE": "config.settings",
        "KAFKA_HEAP_OPTS": "-Xmx1g",
        # What Kubernetes adds for services named reminder-dispatch, outbox-relay and kafka-bootstrap-servers.
        "REMINDER_DISPATCH_SERVICE_HOST": "10.0.0.1",
        "REMINDER_DISPATCH_SERVICE_PORT": "8000",
        "REMINDER_DISPATCH_SERVICE_PORT_METRICS": "8000",
        "REMINDER_DISPATCH_PORT": "tcp://10.0.0.1:8000",
        "OUTBOX_RELAY_PORT_8000_TCP": "tcp://10.0.0.1:8000",
        "OUTBOX_RELAY_PORT_8000_TCP_ADDR": "10.0.0.1",
        "KAFKA_BOOTSTRAP_SERVERS_PORT": "tcp://10.0.0.2:9092",
        "APPOINTMENT_TIMEOUT_PORT_8000_UDP_PROTO": "udp",
    }

    assert load({**NEEDED, **foreign}) == load(NEEDED)


def test_names_are_read_in_any_case():
    assert load({**NEEDED, "reminder_dispatch_batch_size": "7"}).reminder_dispatch_batch_size == 7


@pytest.mark.parametrize(("minutes", "interval", "is_allowed"), [(2, 60, True), (1, 60, False), (0, 1, False)])
def test_a_stale_limit_below_two_ticks_is_refused(minutes, interval, is_allowed):
    environ = {
        "REMINDER_STALE_AFTER_MINUTES": str(minutes),
        "REMINDER_DISPATCH_INTERVAL_SECONDS": str(interval),
    }

    if is_allowed:
        assert load({**NEEDED, **environ}).reminder_stale_after_minutes == minutes
    else:
        assert refusal(**environ) == (
            "REMINDER_STALE_AFTER_MINUTES must be at least two ticks of REMINDER_DISPATCH_INTERVAL_SECONDS"
        )


def test_production_with_a_secret_of_its_own_is_allowed():
    assert load(PRODUCTION).pin_environment == "production"


@pytest.mark.parametrize(
    ("over", "sentence"),
    [
        ({"DEBUG": "true"}, "DEBUG must be off"),
        ({"SECRET_KEY": settings._DEVELOPMENT_SECRET}, "SECRET_KEY must be set"),
        ({"KAFKA_PROFILE": "embedded"}, "KAFKA_PROFILE must not be embedded"),
        ({"JWT_JWKS_URL": "http://identity.example/keys"}, "JWT_JWKS_URL must be an https URL"),
        ({"ALLOWED_HOSTS": settings._DEVELOPMENT_HOSTS}, "ALLOWED_HOSTS must be set"),
        ({"ALLOWED_HOSTS": ", "}, "ALLOWED_HOSTS must be set"),
        ({"SHOWCASE_URL": settings._DEVELOPMENT_SHOWCASE}, "SHOWCASE_URL must be set"),
    ],
)
def test_production_is_not_a_playground(over, sentence):
    assert refusal(**{**PRODUCTION, **over}).startswith(sentence)


def test_a_secret_shows_in_no_representation():
    assert "k" * 32 not in repr(load(PRODUCTION))


@pytest.mark.parametrize("command", ["run_reminder_dispatch", "run_appointment_timeout", "check"])
def test_a_command_with_a_wrong_environment_ends_with_code_2_and_the_sentences(command):
    done = subprocess.run(
        [sys.executable, "manage.py", command],
        env={**os.environ, "REMINDER_STALE_AFTER_MINUTES": "1"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, done.stdout) == (2, "")
    assert "REMINDER_STALE_AFTER_MINUTES must be at least two ticks" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        (
            "postgresql://pin:p%40ss%2Fword@db.local:6432/cal%20endar",
            ("pin", "p@ss/word", "db.local", "6432", "cal endar"),
        ),
        ("postgresql://pin@db/calendar", ("pin", "", "db", "", "calendar")),
        ("postgresql://pin:x@[::1]:5432/calendar", ("pin", "x", "::1", "5432", "calendar")),
        ("postgresql://pin:x@db-1:6432,db-2/calendar", ("pin", "x", "db-1,db-2", "6432,", "calendar")),
    ],
)
def test_the_database_url_is_taken_apart(url, expected):
    env = load({**NEEDED, "DATABASE_URL": url})

    database = settings._database(env.database_url, env)

    assert tuple(database[part] for part in ("USER", "PASSWORD", "HOST", "PORT", "NAME")) == expected


def test_every_connection_has_its_limits():
    env = load({**NEEDED, "DATABASE_URL": "postgresql://pin@db/calendar?sslmode=require"})

    options = settings._database(env.database_url, env)["OPTIONS"]

    assert (options["connect_timeout"], options["sslmode"]) == (3, "require")
    for limit in ("statement_timeout=30000", "lock_timeout=5000", "idle_in_transaction_session_timeout=60000"):
        assert f"-c {limit}" in options["options"]
