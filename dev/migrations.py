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
from django.db.migrations.loader import MigrationLoader

ROOT = Path(__file__).resolve().parent.parent


def write_sql(directory: Path) -> list[Path]:
    """The SQL of each migration in this repository, one file each, in the order of their names."""
    ours = {app.label for app in apps.get_app_configs() if Path(app.path).parent == ROOT}
    paths = []
    for label, name in sorted(MigrationLoader(None).disk_migrations):
        if label in ours:
            path = directory / f"{label}.{name}.sql"
            with path.open("w") as file:
                call_command("sqlmigrate", label, name, stdout=file, no_color=True)
            paths.append(path)
    return paths


def main() -> int:
    """Exit code 0 when both hold."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    django.setup()
    call_command("makemigrations", check=True, dry_run=True)
    with tempfile.TemporaryDirectory() as directory:
        if not (paths := write_sql(Path(directory))):
            return 0
        squawk = Path(sys.executable).with_name("squawk")
        return subprocess.run([squawk, "--config", ROOT / ".squawk.toml", *paths], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
