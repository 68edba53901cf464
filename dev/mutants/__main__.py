"""`python -m dev.mutants [MODULE...]`: try every mutant of the core's modules, or of those named, on their tests.

Prints what survives and renews the modules' rows in docs/mutants.md. Exit code 1 when a mutant survives that is not
justified in dev/mutants/justified.toml, or one is justified there that does not survive; 2 when the check cannot be
done: no mutants, or the tests fail without one.
"""

import argparse
import os
import sys
from collections.abc import Sequence

from dev.mutants import document
from dev.mutants.check import CanNotCheck, check
from dev.mutants.plan import PLAN
from dev.servers import Servers

_CAN_NOT_CHECK = 2


def main(arguments: Sequence[str]) -> int:
    """The module's command line."""
    parser = argparse.ArgumentParser(prog="python -m dev.mutants", description=__doc__)
    parser.add_argument("modules", nargs="*", metavar="MODULE", help=", ".join(PLAN))
    parser.add_argument("--workers", type=int, default=os.cpu_count(), help="mutants at a time (the number of cores)")
    options = parser.parse_args(arguments)
    if unknown := set(options.modules) - PLAN.keys():
        parser.error(f"not in dev/mutants/plan.py: {', '.join(sorted(unknown))}")
    modules = options.modules or list(PLAN)
    # No test of the plan talks to a broker.
    os.environ.setdefault("KAFKA_BOOTSTRAP_SERVERS", "localhost:1")
    with Servers("mutants", fast=True) as servers:
        url = (os.environ | servers.environment)["DATABASE_URL"]
        try:
            result = check(modules, workers=options.workers, database_url=url)
        except CanNotCheck as error:
            print(error, file=sys.stderr)
            return _CAN_NOT_CHECK
    document.write(result)
    for mutant in result.unjustified:
        print(f"not justified: {mutant}")
    for key in result.outlived:
        print(f"justified, but killed or gone: {key}")
    return int(bool(result.unjustified or result.outlived))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
