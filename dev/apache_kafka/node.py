"""The node: its artifacts are fetched once, a log directory is formatted at the first start and kept over the next."""

import base64
import hashlib
import os
import re
import shutil
import subprocess
import uuid
from collections.abc import Sequence
from pathlib import Path

from dev.broker import Broker
from dev.processes import HOST, free_port, last_lines
from dev.workspace import Workspace

_POM = Path(__file__).with_name("pom.xml")
# Beside .dev/, which every run sweeps.
_ARTIFACTS = Path(__file__).resolve().parent.parent.parent / ".maven"
_JAVA = 17
# A small server that starts in half the time: what it runs is over before the better compiler would pay.
_JAVA_OPTIONS = ("-Xms256m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_STOP_SECONDS = 20

_PROPERTIES = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@{host}:{controller_port}
listeners=PLAINTEXT://{host}:{port},CONTROLLER://{host}:{controller_port}
advertised.listeners=PLAINTEXT://{host}:{port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
log.dirs={data}
auto.create.topics.enable=false
offsets.topic.replication.factor=1
offsets.topic.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
"""


class Unavailable(Exception):
    """Java, Maven or the artifacts are not to be had here; the sentence says which."""


class ApacheKafka(Broker):
    """One node. Its data survive a stop, and a crash: what was acknowledged is in the page cache."""

    start_seconds = 60
    poll_seconds = 0.05

    def __init__(self, workspace: Workspace) -> None:
        super().__init__(workspace.directory("apache-kafka"))
        self._properties = self._directory / "server.properties"
        self._libraries: Path | None = None

    def prepare(self) -> None:
        """Raises Unavailable."""
        if not self._port:
            self._libraries = fetch()
            self._format()

    def command(self) -> Sequence[str | Path]:
        return self._java("kafka.Kafka", str(self._properties))

    def stop(self) -> None:
        """An orderly shutdown in bounded time; harmless while stopped."""
        if self._process and self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self.kill()

    def _format(self) -> None:
        self._port = free_port()
        data = self._directory / "data"
        text = _PROPERTIES.format(host=HOST, port=self._port, controller_port=free_port(), data=data)
        self._properties.write_text(text)
        cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        tool = self._java("kafka.tools.StorageTool", "format", "-t", cluster_id, "-c", str(self._properties))
        if self.spawn(tool).wait():
            raise RuntimeError(f"Kafka could not format {data}:\n{last_lines(self._log)}")

    def _java(self, *arguments: str) -> list[str]:
        return [
            "java",
            *_JAVA_OPTIONS,
            f"-Djava.io.tmpdir={self._directory}",
            "-cp",
            f"{self._libraries}/*",
            *arguments,
        ]


def fetch() -> Path:
    """The directory of the jars, resolved by Maven the first time. Raises Unavailable."""
    _require_java()
    libraries = _libraries()
    if libraries.exists():
        return libraries
    if shutil.which("mvn") is None:
        raise Unavailable("Maven is not installed")
    _ARTIFACTS.mkdir(exist_ok=True)
    partial = _ARTIFACTS / f".apache-kafka-{os.getpid()}"
    command = [
        *("mvn", "--quiet", "--batch-mode", "--file", str(_POM)),
        f"-Dmaven.repo.local={_ARTIFACTS / 'repository'}",
        *("dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={partial}"),
    ]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode:
        shutil.rmtree(partial, ignore_errors=True)
        reason = next((line for line in done.stdout.splitlines() if "ERROR" in line), "mvn failed")
        raise Unavailable(f"Maven could not resolve the artifacts: {reason}")
    partial.rename(libraries)
    return libraries


def is_fetched() -> bool:
    """Whether a node can be started without fetching anything."""
    return _libraries().exists() and shutil.which("java") is not None


def _libraries() -> Path:
    version = hashlib.sha256(_POM.read_bytes()).hexdigest()[:12]
    return _ARTIFACTS / f"apache-kafka-{version}"


def _require_java() -> None:
    if shutil.which("java") is None:
        raise Unavailable("Java is not installed")
    told = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False).stderr
    found = re.search(r'version "(\d+)', told)
    if not found or int(found[1]) < _JAVA:
        raise Unavailable(f"Java {_JAVA} or later is needed")
