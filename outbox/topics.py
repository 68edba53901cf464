"""The topics that `ensure_topics` makes."""

from contracts.calendar import PUBLISHED
from contracts.crm import CONSUMED

DEAD_LETTER_SUFFIX = ".dlt"


def names() -> list[str]:
    """Every topic that is published to, with a dead-letter topic each for what is skipped; those that the CRM fills.

    The dead-letter topics of consumers are theirs: they are made when something is to be put aside.
    """
    topics = [message.TOPIC for message in PUBLISHED]
    return topics + [topic + DEAD_LETTER_SUFFIX for topic in topics] + [message.TOPIC for message in CONSUMED]
