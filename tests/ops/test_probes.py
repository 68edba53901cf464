"""/livez, /readyz and /metrics of the web: answered to whoever asks at the process's own address."""

from typing import Any

import pytest
from django.db import connection

from dev.postgres import EmbeddedPostgres

PROBES = ("/livez", "/readyz", "/metrics")


@pytest.mark.django_db
@pytest.mark.parametrize("path", PROBES)
def test_a_probe_is_answered_by_any_host_name_and_over_plain_http(client: Any, settings: Any, path: str) -> None:
    settings.ALLOWED_HOSTS = ["calendar.example"]
    settings.SECURE_SSL_REDIRECT = True

    assert client.get(path, headers={"host": "10.1.2.3:8000"}).status_code == 200
    assert client.get("/admin/", headers={"host": "10.1.2.3:8000"}).status_code == 400
    assert client.get("/admin/", headers={"host": "calendar.example"}).status_code == 301


@pytest.mark.django_db(transaction=True)
def test_an_outage_of_the_database_makes_it_unready_and_kills_nobody(
    client: Any, embedded_postgres: EmbeddedPostgres
) -> None:
    assert client.get("/readyz").json() == {"checks": {"database": "ok"}}
    connection.close()

    embedded_postgres.stop()

    unready = client.get("/readyz")
    assert (unready.status_code, unready.json()) == (503, {"checks": {"database": "OperationalError"}})
    assert client.get("/livez").status_code == 200
    embedded_postgres.start()
    assert client.get("/readyz").status_code == 200


@pytest.mark.django_db
def test_what_lies_below_a_probe_s_path_is_none() -> None:
    from django.test import Client

    assert Client().get("/livez/").status_code == 404
