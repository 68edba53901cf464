"""What an operator's command says of an outage."""

from collections.abc import Iterator
from contextlib import contextmanager

from django.core.management.base import CommandError
from django.db import OperationalError

from workers.reporting import sentence


@contextmanager
def told() -> Iterator[None]:
    """A database that is away, or whose rows are in other hands, is a sentence and exit code 1."""
    try:
        yield
    except OperationalError as error:
        raise CommandError(f"The database is away or busy: {sentence(error)}", returncode=1) from error
