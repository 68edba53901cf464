"""A worker to be run as a real process: `python -m tests.workers.fake_worker --does hang_in_c` and the usual flags."""

import os
import sys

import django

if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    django.setup()

    from tests.workers.fakes import Command

    Command().run_from_argv(["manage.py", "fake_worker", *sys.argv[1:]])
