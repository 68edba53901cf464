"""`make setup`: the virtual environment .venv with exactly the locked dependencies.

Runs on the system's Python, before anything is installed. What is there and right is left alone.
"""

import importlib.util
import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
UV = VENV / "bin" / "uv"
UV_LOCK = ROOT / "requirements-uv.lock"
DEV_LOCK = ROOT / "requirements-dev.lock"
# Where pip has been told about a mirror or a certificate, uv needs the same, under its own names.
_PIP_TO_UV = {"PIP_INDEX_URL": "UV_DEFAULT_INDEX", "PIP_EXTRA_INDEX_URL": "UV_INDEX", "PIP_CERT": "SSL_CERT_FILE"}
_NO_PIP = """\
This Python can make no virtual environment with pip: it has neither ensurepip nor pip, and there is no uv.
Install one of them and run the command again; on Debian and Ubuntu: apt-get install python3-venv"""


def succeeds(*command: str | Path) -> bool:
    """True when the command ends with 0; its output goes nowhere."""
    try:
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def installers() -> list[list[str]]:
    """Commands that install into .venv, the best first; each takes pip's arguments for a requirements file."""
    found: list[list[str]] = []
    if succeeds(PYTHON, "-m", "pip", "--version"):
        found.append([str(PYTHON), "-m", "pip", "install"])
    elif importlib.util.find_spec("pip"):  # Debian's python3-pip without python3-venv
        found.append([sys.executable, "-m", "pip", "--python", str(PYTHON), "install"])
    if uv := shutil.which("uv"):
        found.append([uv, "pip", "install", "--python", str(PYTHON)])
    return found


def make_environment() -> None:
    """A .venv that works: with pip where ensurepip is there, without it elsewhere; a broken one is made anew."""
    is_ready = succeeds(UV, "--version") or succeeds(PYTHON, "-m", "pip", "--version")
    if is_ready and succeeds(PYTHON, "-c", "import sys; sys.exit(sys.version_info < (3, 11))"):
        return
    print(f"Making .venv with Python {sys.version.split()[0]}", flush=True)
    with_pip = importlib.util.find_spec("ensurepip") is not None
    try:
        venv.create(VENV, clear=True, with_pip=with_pip, symlinks=True)
    except subprocess.CalledProcessError:  # ensurepip is there but not its wheels
        venv.create(VENV, clear=True, with_pip=False, symlinks=True)


def install_uv() -> None:
    """The locked uv in .venv, its hash checked."""
    if not (choices := installers()):
        sys.exit(_NO_PIP)
    print("Installing uv", flush=True)
    subprocess.run([*choices[0], "--quiet", "--require-hashes", "--requirement", str(UV_LOCK)], check=True)


def sync() -> None:
    """Exactly the packages of requirements-dev.lock, hashes checked, compiled so that commands start fast."""
    print("Installing the locked dependencies", flush=True)
    environ = {uv: os.environ[pip] for pip, uv in _PIP_TO_UV.items() if os.environ.get(pip)} | dict(os.environ)
    options = ("--quiet", "--require-hashes", "--compile-bytecode")
    subprocess.run([UV, "pip", "sync", "--python", PYTHON, *options, DEV_LOCK], env=environ, check=True)


def main() -> None:
    """Make .venv ready, then say so to make by a stamp that is newer than the locks."""
    try:
        make_environment()
        install_uv()
        sync()
    except subprocess.CalledProcessError as error:
        sys.exit(f"Setting up failed at: {' '.join(map(str, error.cmd))}")
    (VENV / ".ready").touch()


if __name__ == "__main__":
    main()
