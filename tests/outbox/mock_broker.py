"""librdkafka's own mock cluster, for what a healthy broker does not do: refuse a batch."""

import ctypes
import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_PRODUCER, _PRODUCE_REQUEST = 0, 0
_POINTER = ctypes.c_void_p


class MockBroker:
    """One broker in this process."""

    def __init__(self, lib: Any, cluster: int) -> None:
        self._lib = lib
        self._cluster = cluster
        self.bootstrap: str = lib.rd_kafka_mock_cluster_bootstraps(cluster).decode()

    def create_topic(self, topic: str, *, partitions: int) -> None:
        assert self._lib.rd_kafka_mock_topic_create(self._cluster, topic.encode(), partitions, 1) == 0

    def refuse(self, *codes: int) -> None:
        """Answer the next produce requests with these error codes, one each."""
        errors = (ctypes.c_int * len(codes))(*codes)
        self._lib.rd_kafka_mock_push_request_errors_array(self._cluster, _PRODUCE_REQUEST, len(codes), errors)


@contextmanager
def running() -> Iterator[MockBroker]:
    """A mock broker for the block."""
    lib = _librdkafka()
    client = lib.rd_kafka_new(_PRODUCER, lib.rd_kafka_conf_new(), ctypes.create_string_buffer(512), 512)
    cluster = lib.rd_kafka_mock_cluster_new(client, 1)
    try:
        yield MockBroker(lib, cluster)
    finally:
        lib.rd_kafka_mock_cluster_destroy(cluster)
        lib.rd_kafka_destroy(client)


def _librdkafka() -> Any:
    """The library that the Python client carries."""
    spec = importlib.util.find_spec("confluent_kafka")
    assert spec is not None
    assert spec.origin is not None
    (path,) = (Path(spec.origin).parent.parent / "confluent_kafka.libs").glob("librdkafka-*.so*")
    lib = ctypes.CDLL(str(path))
    lib.rd_kafka_conf_new.restype = _POINTER
    lib.rd_kafka_new.restype = _POINTER
    lib.rd_kafka_new.argtypes = [ctypes.c_int, _POINTER, ctypes.c_char_p, ctypes.c_size_t]
    lib.rd_kafka_destroy.argtypes = [_POINTER]
    lib.rd_kafka_mock_cluster_new.restype = _POINTER
    lib.rd_kafka_mock_cluster_new.argtypes = [_POINTER, ctypes.c_int]
    lib.rd_kafka_mock_cluster_destroy.argtypes = [_POINTER]
    lib.rd_kafka_mock_cluster_bootstraps.restype = ctypes.c_char_p
    lib.rd_kafka_mock_cluster_bootstraps.argtypes = [_POINTER]
    lib.rd_kafka_mock_topic_create.argtypes = [_POINTER, ctypes.c_char_p, ctypes.c_int, ctypes.c_int]
    lib.rd_kafka_mock_push_request_errors_array.argtypes = [
        _POINTER,
        ctypes.c_int16,
        ctypes.c_size_t,
        ctypes.POINTER(ctypes.c_int),
    ]
    return lib
