"""`make setup` on machines that lack this or that."""

import importlib.util
import shutil
import sys
from pathlib import Path

import pytest

from dev import bootstrap


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    """A machine with nothing but Python: no .venv, no pip, no uv."""
    monkeypatch.setattr(bootstrap, "PYTHON", tmp_path / "python")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    return monkeypatch


def test_pip_of_the_environment_comes_first(machine: pytest.MonkeyPatch) -> None:
    machine.setattr(bootstrap, "succeeds", lambda *command: command[-3:] == ("-m", "pip", "--version"))
    assert bootstrap.installers() == [[str(bootstrap.PYTHON), "-m", "pip", "install"]]


def test_pip_of_the_system_serves_an_environment_without_pip(machine: pytest.MonkeyPatch) -> None:
    machine.setattr(importlib.util, "find_spec", lambda name: name == "pip" or None)
    assert bootstrap.installers() == [[sys.executable, "-m", "pip", "--python", str(bootstrap.PYTHON), "install"]]


def test_uv_of_the_system_serves_where_there_is_no_pip(machine: pytest.MonkeyPatch) -> None:
    machine.setattr(shutil, "which", lambda name: "/usr/bin/uv" if name == "uv" else None)
    assert bootstrap.installers() == [["/usr/bin/uv", "pip", "install", "--python", str(bootstrap.PYTHON)]]


def test_without_any_installer_a_sentence_names_the_package_to_install(machine: pytest.MonkeyPatch) -> None:
    with pytest.raises(SystemExit, match="apt-get install python3-venv"):
        bootstrap.install_uv()
