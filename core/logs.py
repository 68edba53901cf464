"""JSON log lines of stable words and ids: no names, no prose, no personal data.

Field names are camelCase on the wire, as in messages; `log.info("appointment expired", appointment_id=...)` in code.
"""

import logging
import re
import sys
from typing import Any

import orjson
import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

_RESERVED = frozenset({"event", "level", "logger", "timestamp", "exc_info", "stack_info"})


def camel(name: str) -> str:
    """`slot_outcome` → `slotOutcome`."""
    head, *rest = name.split("_")
    return head + "".join(part.capitalize() for part in rest)


def _camel_keys(_logger: WrappedLogger, _method: str, event_dict: EventDict) -> EventDict:
    return {key if key in _RESERVED or key.startswith("_") else camel(key): value for key, value in event_dict.items()}


# What PostgreSQL adds to an error may quote a row or a literal, and with it a person's free text.
_QUOTES = re.compile(r"^(DETAIL|CONTEXT|LINE \d+):.*(\n\s*\^\s*$)?\n?", re.MULTILINE)


def without_quotes(text: str) -> str:
    """The text of an error or traceback without the parts in which PostgreSQL quotes rows or statements."""
    return _QUOTES.sub("", text)


def _redact_exception(_logger: WrappedLogger, _method: str, event_dict: EventDict) -> EventDict:
    if "exception" in event_dict:
        event_dict["exception"] = without_quotes(event_dict["exception"])
    return event_dict


def _dumps(event_dict: Any, **_kwargs: Any) -> str:
    return orjson.dumps(event_dict, default=str).decode()


_shared: list[Processor] = [
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_log_level,
    structlog.stdlib.add_logger_name,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
    structlog.stdlib.ExtraAdder(),
]


class _CurrentStderr(logging.StreamHandler[Any]):
    """Writes to whatever sys.stderr is at that moment, so that stdout stays free for a command's result."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)

    @property
    def stream(self) -> Any:
        return sys.stderr

    @stream.setter
    def stream(self, _value: Any) -> None:
        raise AttributeError("this handler always writes to sys.stderr")


def configure(*, level: str) -> None:
    """Route structlog and the standard library's loggers to one JSON line each on stderr."""
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *_shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    handler = _CurrentStderr()
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=_shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.format_exc_info,
                _redact_exception,
                _camel_keys,
                structlog.processors.JSONRenderer(serializer=_dumps),
            ],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)


def get(name: str) -> structlog.stdlib.BoundLogger:
    """The logger of a module: `log = logs.get(__name__)`."""
    logger: structlog.stdlib.BoundLogger = structlog.stdlib.get_logger(name)
    return logger
