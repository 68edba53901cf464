"""Where embedded servers keep their files: one directory a run below `.dev/`, gone when the run ends."""

import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Self

ROOT = Path(__file__).resolve().parent.parent / ".dev"
_OWNER = "owner.lock"


class Workspace:
    """A private directory `.dev/<name>-<pid>-…`; `close` removes it, and the next run what a killed one left."""

    def __init__(self, name: str, *, root: Path = ROOT) -> None:
        root.mkdir(mode=0o755, parents=True, exist_ok=True)
        with _locked(root):
            _sweep(root)
            self.path = Path(tempfile.mkdtemp(prefix=f"{name}-{os.getpid()}-", dir=root))
            self._owner = _try_lock(self.path / _OWNER)
        self.path.chmod(0o711)  # a server that runs as another user passes through, and cannot look around

    def directory(self, name: str, *, uid: int | None = None) -> Path:
        """The directory `name`, made when missing, owned by `uid` when given.

        When that user could not get to the checkout (below a home directory of mode 700), it is made in the system's
        temporary directory with a link to it in the workspace, so that it is found and removed all the same.
        """
        path = self.path / name
        if path.exists():
            return path.resolve()
        if uid is None or _open_to_all(self.path):
            path.mkdir(mode=0o700)
        else:
            path.symlink_to(tempfile.mkdtemp(prefix="pin-calendar-"))
        if uid is not None:
            os.chown(path, uid, -1)
        return path.resolve()

    def close(self) -> None:
        """Remove everything; harmless when done twice."""
        _remove(self.path)
        if self._owner is not None:
            self._owner.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _open_to_all(path: Path) -> bool:
    return all(parent.stat().st_mode & stat.S_IXOTH for parent in (path, *path.parents))


@contextmanager
def _locked(root: Path) -> Iterator[None]:
    """Making and sweeping exclude each other: a directory without an owner is stale, never merely young."""
    with (root / "lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _try_lock(path: Path) -> IO[str] | None:
    """The open, locked file, or None while another process holds it; the kernel lets go at any death."""
    lock = path.open("a")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.close()
        return None
    return lock


def _sweep(root: Path) -> None:
    for path in root.iterdir():
        try:
            owner = _try_lock(path / _OWNER) if path.is_dir() else None
        except FileNotFoundError:  # its owner has removed it in this moment
            continue
        if owner:
            _remove(path)
            owner.close()


def _remove(path: Path) -> None:
    # Errors are ignored: a server that is just ending may still write; what stays is swept by the next run.
    if path.exists():
        for link in (child for child in path.iterdir() if child.is_symlink()):
            shutil.rmtree(link.resolve(), ignore_errors=True)
    shutil.rmtree(path, ignore_errors=True)
