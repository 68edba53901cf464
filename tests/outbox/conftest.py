"""Topics, and a relay that runs in this process."""

import select
import socket
import threading
from collections.abc import Iterator

import pytest
from django.db import connection

from outbox import topics
from outbox.relay import RelayJob
from workers.topics import ensure

_BACKEND_KEY_DATA = b"K\x00\x00\x00\x0c"  # its type and length; the process id follows


@pytest.fixture
def kafka_topics(bootstrap: str) -> str:
    """The topics exist; the brokers' address."""
    ensure(topics.names())
    return bootstrap


@pytest.fixture
def relay(kafka_topics: str) -> Iterator[RelayJob]:
    job = RelayJob()
    yield job
    job.close()


@pytest.fixture
def pooler_port() -> Iterator[int]:
    """A proxy before PostgreSQL that makes up the process id which it hands out, as a pooler does."""
    host, port = connection.settings_dict["HOST"], int(connection.settings_dict["PORT"])
    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=_proxy, args=(listening, (host, port)), daemon=True)
        thread.start()
        yield listening.getsockname()[1]
    thread.join(5)


def _proxy(listening: socket.socket, server: tuple[str, int]) -> None:
    """Serve one client; the first BackendKeyData message of the server gets another process id."""
    client, _ = listening.accept()
    with client, socket.create_connection(server) as upstream:
        while True:
            readable, _, _ = select.select([client, upstream], [], [])
            for source in readable:
                if not (data := source.recv(65_536)):
                    return
                if source is upstream and (at := data.find(_BACKEND_KEY_DATA)) >= 0:
                    at += len(_BACKEND_KEY_DATA)
                    data = data[:at] + b"\x00\x00\x00\x01" + data[at + 4 :]
                (upstream if source is client else client).sendall(data)
