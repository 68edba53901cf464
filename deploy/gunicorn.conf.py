"""Gunicorn of the image. WEB_CONCURRENCY sets the number of processes; flags override all."""

import os
import tempfile
from typing import Any

bind = "0.0.0.0:8000"
workers = int(os.environ.get("WEB_CONCURRENCY", "2"))
worker_class = "gthread"
threads = 4
timeout = 30
graceful_timeout = 20
max_requests = 10_000
max_requests_jitter = 1_000
# A heartbeat file on a disk that blocks would get healthy workers killed.
worker_tmp_dir = "/dev/shm" if os.path.isdir("/dev/shm") else None  # noqa: S108
control_socket_disable = True

# The processes share their metrics through files, so that any of them answers a scrape for all. Set before
# prometheus_client is imported, and only here: workers of other roles are one process each.
if workers > 1:
    os.environ.setdefault("PROMETHEUS_MULTIPROC_DIR", tempfile.mkdtemp(prefix="pin-metrics-"))


def child_exit(_server: Any, worker: Any) -> None:
    """Take the live gauges of a process that ended out of the shared metrics."""
    if "PROMETHEUS_MULTIPROC_DIR" in os.environ:
        from prometheus_client import multiprocess

        multiprocess.mark_process_dead(worker.pid)  # type: ignore[no-untyped-call]
