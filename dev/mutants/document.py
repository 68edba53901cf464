"""docs/mutants.md: a row a module, which a run renews, and why each survivor is none of a rule's."""

import re

from dev.mutants.check import TOOL, Result, justified
from dev.mutants.plan import PLAN
from dev.mutants.trial import ROOT

DOCUMENT = ROOT / "docs" / "mutants.md"
_HEAD = f"""# Mutation check of the core

Printed by `make mutants`, which puts one small defect after another into the modules that hold the rules (a bound
moved, a condition turned round, another state, text, field or SQL condition, a line of a table missing) and runs their
tests on each. A mutant that no test notices must be justified in `dev/mutants/justified.toml`; any other ends the
command non-zero, and so does one that is justified without need. `make mutants ARGS=outbox/floor.py` checks one module.

The mutants are made by {TOOL.replace("==", " ")} (Cosmic Ray) with some of its operators and ours
(`dev/mutants/operators.py`), in an environment of its own. Which tests have to notice, says `dev/mutants/plan.py`.

| module | mutants | killed | justified |
|---|---|---|---|
"""


def write(result: Result) -> None:
    """Renew the rows of the modules that were checked and all reasons."""
    text = DOCUMENT.read_text() if DOCUMENT.exists() else ""
    rows = {module: row for row, module in re.findall(r"^(\| `(.+?)` \|.*)$", text, re.MULTILINE)}
    for module in result.modules:
        made = result.made[module]
        survived = sum(mutant.module == module for mutant in result.survivors)
        unjustified = sum(mutant.module == module for mutant in result.unjustified)
        rows[module] = f"| `{module}` | {made} | {made - survived} | {survived - unjustified} |"
    table = "\n".join(rows[module] for module in PLAN if module in rows)
    DOCUMENT.write_text(f"{_HEAD}{table}\n\n## Justified\n\n{_reasons()}\n")


def _reasons() -> str:
    """Each reason with the mutants that it is given for."""
    sections: dict[str, list[str]] = {}
    for (module, where, was, becomes), why in justified().items():
        place = f"`{module}`" + f" {where}" * bool(where)
        sections.setdefault(why, []).append(f"- {place}: `{was}` → `{becomes}`")
    return "\n\n".join(f"{why}\n\n" + "\n".join(lines) for why, lines in sections.items())
