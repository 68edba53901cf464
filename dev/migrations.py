"""`python -m dev.migrations`: no migration is missing, and squawk finds nothing in their SQL that hurts a live table.

The rules that do not apply, and why, are in `.squawk.toml`.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import django
from django.apps import apps
from django.core.management import call_command
from django.db import connection
from django.db.migrations.loader import MigrationLoader

ROOT = Path(__file__).resolve().parent.parent


def write_sql(directory: Path) -> list[Path]:
    """The SQL of each migration in this repository, one file each, below the limits that our connections set."""
    ours = {app.label for app in apps.get_app_configs() if Path(app.path).parent == ROOT}
    limits = _limits()
    paths = []
    for label, name in sorted(MigrationLoader(None).disk_migrations):
        if label in ours:
            path = directory / f"{label}.{name}.sql"
            with path.open("w") as file:
                file.write(limits)
                call_command("sqlmigrate", label, name, stdout=file, no_color=True)
            paths.append(path)
    return paths


def _limits() -> str:
    """The time limits that a migration runs under, read from a connection, as the statements squawk looks for."""
    statements = []
    with connection.cursor() as cursor:
        for name in ("lock_timeout", "statement_timeout"):
            cursor.execute(f"SHOW {name}")
            if (value := cursor.fetchone()[0]) != "0":
                statements.append(f"SET {name} = '{value}';\n")
    return "".join(statements)


def are_safe(paths: list[Path]) -> bool:
    """True when squawk finds nothing in these files; what it finds it prints."""
    squawk = Path(sys.executable).with_name("squawk")
    command: list[str | Path] = [squawk, "--config", ROOT / ".squawk.toml", "--reporter", "gcc", *paths]
    return not paths or subprocess.run(command, check=False).returncode == 0


def main() -> int:
    """Exit code 0 when both hold."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    django.setup()
    call_command("makemigrations", check_changes=True, dry_run=True)
    with tempfile.TemporaryDirectory() as directory:
        return 0 if are_safe(write_sql(Path(directory))) else 1


if __name__ == "__main__":
    sys.exit(main())
