"""What the tests' own clients of Kafka have in common."""

import logging
from typing import Any

# Where the client's own log goes. Without one it writes to stderr, on and on once the session's broker is gone.
_NOWHERE = logging.getLogger("tests.kafka")
_NOWHERE.addHandler(logging.NullHandler())
_NOWHERE.propagate = False


def settings_for(bootstrap: str) -> dict[str, Any]:
    """Of a client that keeps what it meets to itself."""
    return {"bootstrap.servers": bootstrap, "logger": _NOWHERE}
