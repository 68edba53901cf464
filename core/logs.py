"""JSON log lines of stable words and ids: no names, no prose, no personal data.

Field names are camelCase on the wire, as in messages; `log.info("appointment expired", appointment_id=...)` in code.
"""

import functools
import json
import logging
import re
import sys
import traceback
from contextvars import ContextVar
from typing import Any, Self

import orjson
import structlog
from structlog.typing import EventDict, ExcInfo, FilteringBoundLogger, Processor, WrappedLogger

from core import clock

_RESERVED = frozenset({"event", "level", "logger", "timestamp", "exc_info", "stack_info"})
_MALFORMED_VALUE = "22"  # the SQLSTATE class whose messages quote the value


@functools.cache
def camel(name: str) -> str:
    """`slot_outcome` → `slotOutcome`."""
    head, *rest = name.split("_")
    return head + "".join(part.capitalize() for part in rest)


@functools.cache
def _on_the_wire(name: str) -> str:
    return name if name in _RESERVED or name.startswith("_") else camel(name)


# What PostgreSQL adds to an error may quote a row or a literal, and with it a person's free text of several lines; what
# pydantic says quotes the input.
_ADDITIONS = re.compile(r"\n(DETAIL|HINT|CONTEXT|QUERY|LINE \d+):.*", re.DOTALL)
_INPUT = re.compile(r"input_value=.*?(?=, input_type=)", re.DOTALL)
_QUOTED = re.compile(r'".*"', re.DOTALL)


def text_of(error: BaseException) -> str:
    """The error's own text without what it quotes of rows, statements and inputs."""
    text = _INPUT.sub("input_value=…", _ADDITIONS.sub("", str(error)))
    sqlstate = getattr(error, "sqlstate", None) or getattr(error.__cause__, "sqlstate", None) or ""
    return _QUOTED.sub('"…"', text) if sqlstate.startswith(_MALFORMED_VALUE) else text


def traceback_of(error: BaseException) -> str:
    """The traceback with those of its causes before it, as Python prints it, each error with its `text_of`."""
    blocks: list[str] = []
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        kind, text = type(current), text_of(current)
        name = f"{kind.__module__}.{kind.__qualname__}".removeprefix("builtins.")
        frames = "".join(traceback.format_tb(current.__traceback__))
        blocks.append(f"Traceback (most recent call last):\n{frames}{name}: {text}".removesuffix(": "))
        current = current.__cause__ or (None if current.__suppress_context__ else current.__context__)
    return "\n\nThen came:\n\n".join(reversed(blocks))


def _format_exception(exc_info: ExcInfo) -> str:
    return traceback_of(exc_info[1])


def _camel_keys(_logger: WrappedLogger, _method: str, event_dict: EventDict) -> EventDict:
    return {_on_the_wire(name): value for name, value in event_dict.items()}


def _dumps(event_dict: Any, **_kwargs: Any) -> str:
    try:
        return orjson.dumps(event_dict, default=str).decode()
    except TypeError:  # a value that only the slow way can spell must not hurt the one who logs it
        text = json.dumps(event_dict, default=str, skipkeys=True, ensure_ascii=False)
        return text.encode(errors="replace").decode()


def _stamp(_logger: WrappedLogger, _method: str, event_dict: EventDict) -> EventDict:
    event_dict["timestamp"] = clock.stamp()
    return event_dict


def _route_for_path(_logger: WrappedLogger, _method: str, event_dict: EventDict) -> EventDict:
    """What Django says of a request, with its route in the place of its path, in which a secret may stand."""
    request = event_dict.pop("request", None)
    path = str(getattr(request, "path", "")).encode("unicode_escape").decode()
    if len(path) > 1:
        route = getattr(getattr(request, "resolver_match", None), "route", None)
        event_dict["event"] = str(event_dict["event"]).replace(path, f"/{route or '…'}")
    return event_dict


_rendering: list[Processor] = [
    structlog.processors.ExceptionRenderer(_format_exception),
    _camel_keys,
    structlog.processors.JSONRenderer(serializer=_dumps),
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


class Held:
    """Lines of the block, kept until `release` writes them, all at once: for what is true only after a commit.

    They are made while there is time to, and written when whoever reads them may be slow. Unreleased, they are nothing.
    """

    def __init__(self) -> None:
        self.lines: list[str] = []

    def __enter__(self) -> Self:
        self._token = _held.set(self.lines)
        return self

    def __exit__(self, *_: object) -> None:
        _held.reset(self._token)

    def release(self) -> None:
        """Write what was kept."""
        lines, self.lines = self.lines, []
        _put("".join(f"{line}\n" for line in lines))


_held: ContextVar[list[str] | None] = ContextVar("held", default=None)


def _put(text: str) -> None:
    try:
        sys.stderr.write(text)
    except (OSError, ValueError):
        return


class _Lines:
    """Where our own loggers write: the same stream, a line a call. Whoever cannot be told stops nobody."""

    def __init__(self, name: str) -> None:
        self.name = name

    def write(self, line: str) -> None:
        held = _held.get()
        if held is None:
            _put(f"{line}\n")
        else:
            held.append(line)

    debug = info = warning = error = critical = write


def _say_who(logger: WrappedLogger, method: str, event_dict: EventDict) -> EventDict:
    event_dict["level"] = method
    event_dict["logger"] = logger.name
    return event_dict


def configure(*, level: str) -> None:
    """Make of structlog's and the standard library's loggers one JSON line each on stderr, from `level` on.

    Ours do not pass through the standard library: a worker that sends ten thousand reminders a second writes as many
    lines, and the detour costs three times the line.
    """
    structlog.configure(
        processors=[structlog.contextvars.merge_contextvars, _say_who, _stamp, *_rendering],
        logger_factory=_Lines,
        wrapper_class=structlog.make_filtering_bound_logger(level.lower()),
        cache_logger_on_first_use=True,
    )
    handler = _CurrentStderr()
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[
                structlog.contextvars.merge_contextvars,
                structlog.stdlib.add_log_level,
                structlog.stdlib.add_logger_name,
                _stamp,
                structlog.stdlib.ExtraAdder(),
                _route_for_path,
            ],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *_rendering],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)


def get(name: str) -> FilteringBoundLogger:
    """The logger of a module: `log = logs.get(__name__)`."""
    logger: FilteringBoundLogger = structlog.get_logger(name)
    return logger
