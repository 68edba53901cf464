#!/usr/bin/env python3
"""Every role of the system starts here: web commands, workers, tools."""

import os
import sys

from core.errors import SettingsError


def main() -> None:
    """Run a management command; exit 2 with a sentence for each setting at fault."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    try:
        import config.settings  # noqa: F401  (read first, so that a bad setting is told before anything starts)
    except SettingsError as error:
        print(error, file=sys.stderr)
        sys.exit(2)
    from django.core.management import execute_from_command_line

    execute_from_command_line(sys.argv)


if __name__ == "__main__":
    main()
