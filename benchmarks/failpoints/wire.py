"""The wire between a process and PostgreSQL: it counts statements, and tells when the chosen one is reached.

The process under test is the real one, and knows nothing of it: whatever it sends, COMMIT and sessions beside Django's
included, passes here.
"""

import contextlib
import socket
import struct
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from dev.processes import HOST

_STARTUP = struct.Struct("!I")
_HEAD = struct.Struct("!cI")
# What the process sends: a statement of the simple protocol; of the extended one, in parts, several in a row.
_QUERY, _PARSE, _BIND, _EXECUTE = b"Q", b"P", b"B", b"E"
# What the server answers: an execution is done; or it failed, with all up to the next synchronisation, told by READY.
_DONE, _ERROR, _READY = (b"C", b"I", b"s"), b"E", b"Z"
_SSL_REQUEST = 80_877_103


class When(StrEnum):
    """On which side of a statement the process is to die."""

    BEFORE = "before"
    """The server never sees the statement."""
    AFTER = "after"
    """The server has done it; the process never hears of that."""


@dataclass(frozen=True)
class Point:
    number: int
    when: When


class Wire:
    """A port of the loopback interface that leads to PostgreSQL as long as the block lasts."""

    def __init__(self, *, to: tuple[str, int]) -> None:
        self._to = to
        self._listener = socket.create_server((HOST, 0))
        self.port: int = self._listener.getsockname()[1]
        self._lock = threading.Lock()
        self._point: Point | None = None
        self._reached: Callable[[], None] = lambda: None
        self.statements: list[str] = []
        """Those that the process has sent since the last `watch`."""
        self.ports: list[int] = []
        """By which PostgreSQL knows the process's sessions since then."""

    def watch(self, point: Point | None = None, *, reached: Callable[[], None] = lambda: None) -> None:
        """Count from 0 on. At the point `reached` is called, and nothing passes any more on that session."""
        with self._lock:
            self._point, self._reached, self.statements, self.ports = point, reached, [], []

    def __enter__(self) -> "Wire":
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        # An accept() in progress would keep the socket: shutting it down wakes the thread.
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def is_at(self, statement: str) -> Point | None:
        """Count the statement; the point, when it is the chosen one."""
        with self._lock:
            number = len(self.statements)
            self.statements.append(statement)
            return self._point if self._point and self._point.number == number else None

    def tell(self) -> None:
        self._reached()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:  # closed
                return
            server = socket.create_connection(self._to)
            self.ports.append(server.getsockname()[1])
            for one in (client, server):
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            session = _Session(self, client=client, server=server)
            for pump in (session.requests, session.answers):
                threading.Thread(target=pump, daemon=True).start()


class _Session:
    """One connection through the wire."""

    def __init__(self, wire: Wire, *, client: socket.socket, server: socket.socket) -> None:
        self._wire = wire
        self._client = client
        self._server = server
        self._parsed: dict[bytes, str] = {}
        self._bound = ""
        self._unanswered: deque[tuple[bytes, bool]] = deque()
        """The kinds of the messages that still execute, and which of them the process does not survive."""
        self._has_failed = False
        self._is_cut = False

    def requests(self) -> None:
        """Pass on what the process says, to the end of the one or the other."""
        with self._client.makefile("rb") as stream, contextlib.suppress(OSError, struct.error):
            self._start_up(stream.read)
            while head := stream.read(_HEAD.size):
                kind, length = _HEAD.unpack(head)
                body = stream.read(length - 4)
                if self._is_to_be_cut(kind, body):
                    self._cut()
                    break
                self._server.sendall(head + body)
        _hang_up(self._server)

    def answers(self) -> None:
        """Pass on what the server says, up to the answer that the process is not to hear."""
        with self._server.makefile("rb") as stream, contextlib.suppress(OSError, struct.error):
            while head := stream.read(_HEAD.size):
                kind, length = _HEAD.unpack(head)
                body = stream.read(length - 4)
                if self._is_cut or self._is_last_answer(kind):
                    self._cut()
                    break
                self._client.sendall(head + body)
        _hang_up(self._client)

    def _start_up(self, read: Callable[[int], bytes]) -> None:
        while True:
            [length] = _STARTUP.unpack(read(_STARTUP.size))
            body = read(length - _STARTUP.size)
            if _STARTUP.unpack_from(body) == (_SSL_REQUEST,):
                self._client.sendall(b"N")  # in the clear, so that statements can be told apart
                continue
            self._server.sendall(_STARTUP.pack(length) + body)
            return

    def _is_to_be_cut(self, kind: bytes, body: bytes) -> bool:
        """Whether the process dies before this message."""
        if kind == _PARSE:
            name, query, *_ = body.split(b"\0")
            self._parsed[name] = query.decode()
        elif kind == _BIND:
            _portal, name, *_ = body.split(b"\0")
            self._bound = self._parsed.get(name, "")
        elif kind in (_QUERY, _EXECUTE):
            statement = self._bound if kind == _EXECUTE else body.rstrip(b"\0").decode()
            point = self._wire.is_at(" ".join(statement.split()))
            if point is not None and point.when is When.BEFORE:
                return True
            self._unanswered.append((kind, point is not None))
        return False

    def _is_last_answer(self, kind: bytes) -> bool:
        """Whether this is the end of the answer that the process is not to hear."""
        answered: list[tuple[bytes, bool]] = []
        if kind == _READY and (self._has_failed or (self._unanswered and self._unanswered[0][0] == _QUERY)):
            answered = [*self._unanswered] if self._has_failed else [self._unanswered[0]]
            self._has_failed = False
        elif kind in _DONE and self._unanswered and self._unanswered[0][0] == _EXECUTE:
            answered = [self._unanswered[0]]
        elif kind == _ERROR and self._unanswered and self._unanswered[0][0] == _EXECUTE:
            self._has_failed = True
        for _ in answered:
            self._unanswered.popleft()
        return any(is_last for _, is_last in answered)

    def _cut(self) -> None:
        if not self._is_cut:
            self._is_cut = True
            self._wire.tell()


def _hang_up(end: socket.socket) -> None:
    with contextlib.suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
    end.close()
