"""Exit 0 when /livez of the process in this container, on PIN_HEALTH_PORT, answers 200.

A worker's /livez answers 503 once its loop hangs; the web's is answered by any process that has a thread to spare.
"""

import http.client
import os
import sys


def is_alive(port: int) -> bool:
    """One request, 4 seconds at most."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=4)
    try:
        connection.request("GET", "/livez")
        return connection.getresponse().status == http.HTTPStatus.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


if __name__ == "__main__":
    sys.exit(0 if is_alive(int(os.environ.get("PIN_HEALTH_PORT", "8000"))) else 1)
