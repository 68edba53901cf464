"""Gunicorn of the image. WEB_CONCURRENCY sets the number of processes; flags override all."""

import logging
import os
import re
import shutil
import tempfile
from typing import Any

from gunicorn.glogging import Logger

bind = "0.0.0.0:8000"
workers = int(os.environ.get("WEB_CONCURRENCY", "2"))
worker_class = "gthread"
threads = 4
timeout = 30
graceful_timeout = 20
# A heartbeat file on a disk that blocks would get healthy workers killed.
worker_tmp_dir = "/dev/shm" if os.path.isdir("/dev/shm") else None  # noqa: S108
control_socket_disable = True
# Off by default. Who turns it on (--access-logfile -) gets no path, since that of a calendar feed is a secret.
access_log_format = "%(t)s %(m)s %(s)s %(B)s %(M)sms"
_PATH_OF_A_FEED = re.compile(r"(/feeds/)[^\s?]+")


def _hide_path(record: logging.LogRecord) -> bool:
    record.msg, record.args = _PATH_OF_A_FEED.sub(r"\1…", record.getMessage()), ()
    return True


class logger_class(Logger):  # type: ignore[misc]
    """Gunicorn's, whose lines about errors and, at level debug, about every request would tell it too."""

    def setup(self, cfg: Any) -> None:
        super().setup(cfg)
        self.error_log.addFilter(_hide_path)


# The processes share their metrics through files, so that any of them answers a scrape for all. Set before
# prometheus_client is imported, and only here: workers of other roles are one process each.
_METRICS = "PROMETHEUS_MULTIPROC_DIR"
_is_ours = workers > 1 and _METRICS not in os.environ
if _is_ours:
    os.environ[_METRICS] = tempfile.mkdtemp(prefix="pin-metrics-")


def on_exit(_server: Any) -> None:
    """Leave no file behind."""
    if _is_ours:
        shutil.rmtree(os.environ[_METRICS], ignore_errors=True)


def child_exit(_server: Any, worker: Any) -> None:
    """Take the live gauges of a process that ended out of the shared metrics."""
    if _METRICS in os.environ:
        from prometheus_client import multiprocess

        multiprocess.mark_process_dead(worker.pid)  # type: ignore[no-untyped-call]
