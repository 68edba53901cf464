"""Exit 0 when the process of this container serves HTTP on PIN_HEALTH_PORT.

A worker's /livez answers 503 once its loop hangs. Of the web any answer below 500 will do, since a redirect to https or
an unknown host name is an answer too.
"""

import http.client
import os
import sys


def is_alive(port: int) -> bool:
    """One request, 4 seconds at most."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=4)
    try:
        connection.request("GET", "/livez")
        return connection.getresponse().status < http.HTTPStatus.INTERNAL_SERVER_ERROR
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


if __name__ == "__main__":
    sys.exit(0 if is_alive(int(os.environ.get("PIN_HEALTH_PORT", "8000"))) else 1)
