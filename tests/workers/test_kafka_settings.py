"""How the clients of Kafka are told to be safe."""

from typing import Any

import pytest
from confluent_kafka import Producer
from pytest_django.fixtures import Settings

from config.settings import load
from core.errors import SettingsError
from workers.kafka import client_settings

NEEDED = {"DATABASE_URL": "postgresql://pin@db/calendar", "KAFKA_BOOTSTRAP_SERVERS": "kafka:9092"}
USER = {"KAFKA_SASL_USERNAME": "calendar", "KAFKA_SASL_PASSWORD": "hidden"}


def _told(settings: Any, **environ: str) -> dict[str, Any]:
    settings.ENV = load({**NEEDED, **environ})
    told = client_settings()
    Producer({**told, "bootstrap.servers": ""}).flush(0)  # librdkafka refuses what it does not know
    return {name: value for name, value in told.items() if name.startswith(("security.", "ssl.", "sasl."))}


def test_without_more_they_speak_in_the_clear(settings: Settings) -> None:
    assert _told(settings) == {"security.protocol": "PLAINTEXT"}


def test_tls_checks_against_the_systems_certificates_or_a_given_file(settings: Settings) -> None:
    assert _told(settings, KAFKA_SECURITY_PROTOCOL="SSL") == {"security.protocol": "SSL"}

    settings.ENV = load({**NEEDED, "KAFKA_SECURITY_PROTOCOL": "SSL", "KAFKA_SSL_CA_LOCATION": "/etc/kafka/ca.pem"})
    assert client_settings()["ssl.ca.location"] == "/etc/kafka/ca.pem"


def test_a_password_is_proven_by_the_chosen_mechanism(settings: Settings) -> None:
    told = _told(settings, KAFKA_SECURITY_PROTOCOL="SASL_SSL", KAFKA_SASL_MECHANISM="SCRAM-SHA-256", **USER)

    assert told == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.username": "calendar",
        "sasl.password": "hidden",
    }


@pytest.mark.parametrize("missing", list(USER))
def test_sasl_without_user_or_password_stops_the_start(missing: str) -> None:
    environ = {**NEEDED, **USER, "KAFKA_SECURITY_PROTOCOL": "SASL_PLAINTEXT", missing: ""}

    with pytest.raises(SettingsError, match=missing):
        load(environ)
