"""What the tests of the domain's faults and races end with."""

from core import clock
from ops import proof


def violations() -> list[str]:
    """What `manage.py check_invariants` would find in the committed state: the invariant and its first fault, each."""
    with proof.snapshot():
        return [
            f"{finding.invariant.name}: {finding.violation_count}, such as {finding.first_faults[0]}"
            for finding in proof.check(as_of=clock.now())
            if finding.is_violated
        ]
