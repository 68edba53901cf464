"""`python -m benchmarks.peers.projects PROJECT VERB [COUNT]`: get ready, say so; at a line do it, and say how many."""

import importlib
import sys


def main() -> None:
    """The number is the last word on stdout."""
    name, verb, *count = sys.argv[1:]
    project = importlib.import_module(f"benchmarks.peers.projects.{name}")
    project.configure()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.readline()
    done = getattr(project, verb)(*map(int, count))
    sys.stdout.write(f"\n{done}\n")


if __name__ == "__main__":
    main()
