"""`make demo`: the whole system on this machine with sample data, and a story that shows it at work.

Embedded servers take the place of DATABASE_URL and KAFKA_BOOTSTRAP_SERVERS where these are not set. The story is told
again and again until Ctrl-C, or once with --once: then the exit code is 0 when everything was as told, else 1.
"""

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence

from dev.run import MANAGE, migrate
from dev.servers import Servers

_FAILED = 1
_INTERRUPTED = 130


def main(arguments: Sequence[str]) -> int:
    """The module's command line."""
    parser = argparse.ArgumentParser(
        prog="make demo ARGS=…",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--once", action="store_true", help="tell the story once, verify it, exit")
    once = parser.parse_args(arguments).once
    try:
        with Servers("demo") as servers:
            return _run(servers, once=once)
    except KeyboardInterrupt:
        print("\nStopped.")
        return _INTERRUPTED if once else 0
    except subprocess.CalledProcessError:  # the command has said why
        return _FAILED
    except (OSError, RuntimeError) as error:
        print(error, file=sys.stderr)
        return _FAILED


def _run(servers: Servers, *, once: bool) -> int:
    # Our own log lines would only repeat the story; the workers keep the level that was asked for.
    workers_log_level = os.environ.get("LOG_LEVEL", "INFO")
    os.environ.update(servers.environment | {"LOG_LEVEL": "WARNING", "DJANGO_SETTINGS_MODULE": "config.settings"})
    print("Servers are up; migrating", flush=True)
    migrate(os.environ)
    subprocess.run([*MANAGE, "ensure_topics"], check=True)

    import django

    django.setup()
    from dev import stage  # reads Django's settings, so not before the servers run

    return stage.run(once=once, log_level=workers_log_level, is_database_ours=servers.postgres is not None)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
