"""`make bench` and `make soak` as commands: what they refuse, and with what they end."""

import subprocess
import sys
from typing import Any

import pytest

from benchmarks import __main__ as bench
from benchmarks.soak import __main__ as soak


def test_what_is_written_down_is_of_three_runs_or_more(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["make bench", "timeout", "--runs", "2"])

    with pytest.raises(SystemExit) as ended:
        bench.main()

    assert ended.value.code == 2
    assert "argument --runs" in capsys.readouterr().err


@pytest.mark.parametrize(("codes", "code"), [([0, 0, 0], 0), ([0, 1, 0], 1), ([-9, 0, 0], 1)])
def test_a_part_that_failed_or_was_killed_is_no_success(
    monkeypatch: pytest.MonkeyPatch, codes: list[int], code: int
) -> None:
    ends = iter(codes)

    def run(command: list[str], **_: Any) -> "subprocess.CompletedProcess[str]":
        return subprocess.CompletedProcess(command, next(ends))

    monkeypatch.setattr(subprocess, "run", run)

    assert soak.main([]) == code
