"""`python -m dev.run [--] COMMAND...`: a command with servers and a migrated database.

Embedded servers take the place of DATABASE_URL and KAFKA_BOOTSTRAP_SERVERS where these are not set; they end, and
their data goes, with the command. Its exit code becomes ours.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from dev.processes import die_with_parent
from dev.servers import Servers

MANAGE = (sys.executable, str(Path(__file__).resolve().parent.parent / "manage.py"))
_USAGE_ERROR = 2


def migrate(environ: Mapping[str, str]) -> None:
    """Bring the database up to date; raises CalledProcessError after the command has said why."""
    subprocess.run([*MANAGE, "migrate", "--verbosity", "0"], env=environ, check=True)


def run(command: Sequence[str], *, environ: Mapping[str, str]) -> int:
    """Run to the end and return the exit code (128 + signal as a shell has it); SIGTERM to us is passed on to it.

    Ctrl-C on a terminal reaches the command by itself; we wait for what it makes of it.
    """
    previous = {signum: signal.getsignal(signum) for signum in (signal.SIGTERM, signal.SIGINT)}
    with subprocess.Popen(command, env=environ, preexec_fn=die_with_parent(signal.SIGTERM)) as child:  # noqa: PLW1509
        signal.signal(signal.SIGINT, lambda *_: None)
        signal.signal(signal.SIGTERM, lambda *_: child.terminate())
        try:
            code = child.wait()
        finally:
            for signum, handler in previous.items():
                signal.signal(signum, handler)
    return code if code >= 0 else 128 - code


def main(arguments: Sequence[str]) -> int:
    """The module's command line."""
    command = list(arguments[1:] if arguments[:1] == ["--"] else arguments)
    if not command:
        print(__doc__, file=sys.stderr)
        return _USAGE_ERROR
    with Servers("run") as servers:
        environ = os.environ | servers.environment
        try:
            migrate(environ)
            return run(command, environ=environ)
        except subprocess.CalledProcessError as error:
            return error.returncode
        except KeyboardInterrupt:
            return 128 + signal.SIGINT
        except OSError as error:
            print(error, file=sys.stderr)
            return _USAGE_ERROR


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
