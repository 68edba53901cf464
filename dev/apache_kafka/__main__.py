"""`python -m dev.apache_kafka`: run a node until Ctrl-C; with --fetch only fetch its artifacts."""

import signal
import sys

from dev.apache_kafka.node import ApacheKafka, Unavailable, fetch
from dev.workspace import Workspace


def main(arguments: list[str]) -> int:
    """Exit code 0, or 1 with a sentence when Kafka is not to be had here, 2 for an unknown argument."""
    if arguments not in ([], ["--fetch"]):
        print("usage: python -m dev.apache_kafka [--fetch]", file=sys.stderr)
        return 2
    try:
        if arguments:
            fetch()
            return 0
        with Workspace("kafka") as workspace, ApacheKafka(workspace) as kafka:
            print(f"KAFKA_BOOTSTRAP_SERVERS={kafka.bootstrap_servers}  (Ctrl-C stops it)", flush=True)
            signal.sigwait({signal.SIGINT, signal.SIGTERM})
    except Unavailable as error:
        print(f"Apache Kafka is not to be had here: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    sys.exit(main(sys.argv[1:]))
