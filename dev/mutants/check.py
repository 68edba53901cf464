"""The check: mutants are made, tried side by side, and those that survive are held against the justified ones."""

import json
import os
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

from dev.mutants import trial
from dev.mutants.plan import PLAN
from dev.mutants.trial import ROOT, Key, Mutant, Verdict

TOOL = "cosmic-ray==8.7.0"
JUSTIFIED = Path(__file__).with_name("justified.toml")
# Several times what the tests of any module take.
_TIMEOUT_SECONDS = 300.0


class CanNotCheck(Exception):
    """The sentence says why."""


@dataclass(frozen=True)
class Result:
    """What became of the mutants of these modules."""

    modules: Sequence[str]
    made: Counter[str]
    survivors: Sequence[Mutant]
    justified: dict[Key, str]

    @property
    def unjustified(self) -> list[Mutant]:
        return [mutant for mutant in self.survivors if mutant.key not in self.justified]

    @property
    def outlived(self) -> list[Key]:
        """What is justified without need."""
        survived = {mutant.key for mutant in self.survivors}
        return [key for key in self.justified if key not in survived]


def check(modules: Sequence[str], *, workers: int, database_url: str) -> Result:
    """Try every mutant of the modules, printing those that survive. Raises CanNotCheck."""
    mutants = make(modules)
    print(f"{len(mutants)} mutants of {', '.join(modules)}", flush=True)
    survivors = []
    expected = {key: why for key, why in justified().items() if key[0] in modules}
    with _pool(workers, database_url) as pool:
        _expect_survival(pool, modules)
        for number, (mutant, verdict, _) in enumerate(_tried(pool, mutants), start=1):
            if verdict is Verdict.SURVIVED:
                survivors.append(mutant)
                print(f"survived: {mutant}", flush=True)
            if number % 50 == 0:
                print(f"{number} of {len(mutants)} tried", flush=True)
        # A database that is away, or that a mutant has soiled, kills whatever is tried on it.
        _expect_survival(pool, modules)
        # So does a machine so busy that a test takes too long: what is said to survive has a second try.
        doubted = [mutant for mutant in mutants if mutant.key in expected.keys() - {one.key for one in survivors}]
        survivors += [mutant for mutant, verdict, _ in _tried(pool, doubted) if verdict is Verdict.SURVIVED]
    return Result(
        modules,
        Counter(mutant.module for mutant in mutants),
        survivors,
        expected,
    )


def make(modules: Sequence[str]) -> list[Mutant]:
    """The mutants of the modules. Raises CanNotCheck."""
    uv = str(Path(sys.executable).with_name("uv"))
    environment = [uv, "--quiet", "tool", "run", "--from", TOOL, "--python", sys.executable]
    command = [*environment, "python", "-m", "dev.mutants.generate", *modules]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise CanNotCheck(f"no mutants: {(done.stderr.splitlines() or ['failed'])[-1]}")
    return [Mutant(**json.loads(line)) for line in done.stdout.splitlines()]


def justified() -> dict[Key, str]:
    """Those that may survive, and why."""
    groups = tomllib.loads(JUSTIFIED.read_text())["group"]
    return {
        (mutant["module"], mutant["where"], mutant["was"], mutant["becomes"]): group["why"]
        for group in groups
        for mutant in group["mutants"]
    }


@contextmanager
def _pool(workers: int, database_url: str) -> Iterator[ProcessPoolExecutor]:
    """Processes that try mutants; what has not begun when the block is broken off is not begun any more."""
    pool = ProcessPoolExecutor(
        workers,
        mp_context=get_context("spawn"),
        initializer=trial.prepare,
        initargs=(database_url, os.getpid()),
    )
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)


def _tried(pool: ProcessPoolExecutor, mutants: Sequence[Mutant]) -> Iterator[tuple[Mutant, Verdict, str]]:
    """Each mutant with what became of it and what its tests printed last, in the order of their ends."""
    running = {
        pool.submit(trial.attempt, mutant, PLAN[mutant.module], timeout_seconds=_TIMEOUT_SECONDS): mutant
        for mutant in mutants
    }
    for future in as_completed(running):
        verdict, printed = future.result()
        yield running[future], verdict, printed


def _expect_survival(pool: ProcessPoolExecutor, modules: Sequence[str]) -> None:
    """Raises CanNotCheck when the tests of a module fail on it as it is."""
    as_they_are = [Mutant(module, "", "", "", (ROOT / module).read_text()) for module in modules]
    for mutant, verdict, printed in _tried(pool, as_they_are):
        if verdict is not Verdict.SURVIVED:
            raise CanNotCheck(f"the tests of {mutant.module} fail without a mutant ({verdict}):\n{printed}")
