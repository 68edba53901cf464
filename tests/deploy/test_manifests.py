"""The compose file and the Kubernetes manifests: valid, hardened, and of one mind with settings, commands and image."""

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from django.core.management import get_commands

from config.settings import Environment
from tests.deploy import compose
from tests.dev.processes import ROOT

KUBERNETES = ROOT / "deploy/kubernetes"
BASE, OVERLAY = KUBERNETES / "base", KUBERNETES / "overlays/production"
OLDEST, NEWEST = "1.29", "1.37"

# Read by the image's helpers, not by the settings.
OF_THE_IMAGE = {"PIN_HEALTH_PORT", "WEB_CONCURRENCY"}
SETTINGS = {name.upper() for name in Environment.model_fields}
WORKERS = {"timeout", "dispatcher", "relay", "notifications", "crm-sync"}


def built(directory: Path) -> list[dict[str, Any]]:
    """What kustomize makes of it; skips the test where kubectl is not installed."""
    if (kubectl := shutil.which("kubectl")) is None:
        pytest.skip("kubectl, which has kustomize built in, is not installed")
    done = subprocess.run([kubectl, "kustomize", directory], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return list(yaml.safe_load_all(done.stdout))


def pods(documents: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The pod of each Deployment and Job by its component."""
    workloads = [document for document in documents if document["kind"] in ("Deployment", "Job")]
    templates = [workload["spec"]["template"] for workload in workloads]
    return {template["metadata"]["labels"]["app.kubernetes.io/component"]: template["spec"] for template in templates}


def containers(pod: dict[str, Any]) -> list[dict[str, Any]]:
    return [*pod.get("initContainers", []), *pod["containers"]]


def written() -> Iterator[dict[str, Any]]:
    """The documents of the base as they stand in the files, and so without kustomize."""
    for path in sorted(BASE.glob("*.yaml")):
        yield from yaml.safe_load_all(path.read_text())


def test_the_compose_file_is_one() -> None:
    program = Path(sys.executable).with_name("check-jsonschema")
    done = subprocess.run(
        [program, "--builtin-schema", "vendor.compose-spec", compose.PATH], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("version", [OLDEST, NEWEST])
@pytest.mark.parametrize("directory", [BASE, OVERLAY], ids=lambda path: path.name)
def test_the_manifests_are_what_kubernetes_takes(directory: Path, version: str) -> None:
    documents = built(directory)

    for document in documents:
        kubernetes_validate.validate(document, version, strict=True)
    assert {document["kind"] for document in documents} == {
        "ConfigMap",
        "Deployment",
        "Job",
        "PodDisruptionBudget",
        "Service",
    }


def test_every_role_is_deployed_in_both_ways() -> None:
    deployed = {document["metadata"]["name"] for document in written() if document.get("kind") == "Deployment"}
    budgets = {document["metadata"]["name"] for document in written() if document.get("kind") == "PodDisruptionBudget"}

    assert set(compose.roles()) == WORKERS | {"web"}
    assert {service["deploy"]["replicas"] for service in compose.roles().values()} == {2}
    assert deployed - {"every-role"} == budgets == {f"calendar-{name}" for name in WORKERS | {"web"}}


def test_every_variable_is_a_setting() -> None:
    in_compose = {name for service in compose.ours().values() for name in service["environment"]}
    in_base = {entry["name"] for document in written() for entry in _entries(document, "env")}
    overlays = [yaml.safe_load((path / "kustomization.yaml").read_text()) for path in (BASE, OVERLAY)]
    literals = {
        literal for overlay in overlays for made in overlay["configMapGenerator"] for literal in made["literals"]
    }
    in_maps = {literal.partition("=")[0] for literal in literals}
    in_image = set(re.findall(r"^\s+([A-Z_]{8,})=", (ROOT / "Dockerfile").read_text().rpartition("FROM")[2], re.M))

    assert in_compose | in_base | in_maps <= SETTINGS | OF_THE_IMAGE
    assert in_image - {"PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE"} <= SETTINGS | OF_THE_IMAGE
    assert {"DATABASE_URL", "KAFKA_BOOTSTRAP_SERVERS"} <= in_compose


def test_every_command_exists() -> None:
    in_compose = {service["command"][0] for service in compose.ours().values() if "command" in service}
    in_base = {words[0] for document in written() for words in _lists(document, "args")}

    assert in_compose == in_base
    assert in_compose - set(get_commands()) == set()


def test_the_settings_of_the_overlay_start_the_program() -> None:
    [config] = [document["data"] for document in built(OVERLAY) if document["kind"] == "ConfigMap"]
    secrets = {"DATABASE_URL": "postgresql://a:b@h/x", "SECRET_KEY": "s" * 40, "EMAIL_HOST_PASSWORD": "p"}

    from config.settings import load

    assert load({**config, **secrets}).pin_environment == "production"


def test_pods_may_do_nothing_but_their_work() -> None:
    for component, pod in pods(built(OVERLAY)).items():
        assert pod["securityContext"]["runAsNonRoot"] is True, component
        assert pod["automountServiceAccountToken"] is False, component
        for container in containers(pod):
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }, component
            assert container["resources"]["limits"]["memory"], component
            assert container["image"] == "registry.pin.example/pin-calendar:0.1.0", component


def test_pods_are_probed_and_given_the_time_that_a_stop_may_take() -> None:
    long_running = {name: pod for name, pod in pods(built(OVERLAY)).items() if name != "migrate"}

    assert set(long_running) == WORKERS | {"web"}
    for component, pod in long_running.items():
        [container] = pod["containers"]
        for probe, path in {"startupProbe": "/livez", "livenessProbe": "/livez", "readinessProbe": "/readyz"}.items():
            assert container[probe]["httpGet"] == {"path": path, "port": "http"}, component
            assert container[probe]["timeoutSeconds"] > 3, "a check is bounded by 3 seconds"
    graces = {component: pod["terminationGracePeriodSeconds"] for component, pod in long_running.items()}
    assert graces == {**dict.fromkeys(WORKERS, 15), "web": 35}


def test_a_migration_gives_up_a_lock_before_it_stops_the_old_version() -> None:
    [migrate] = [c for c in containers(pods(built(OVERLAY))["migrate"]) if c["name"] == "migrate"]
    given = {entry["name"]: entry["value"] for entry in migrate["env"]}

    assert given["DATABASE_LOCK_TIMEOUT_MS"] == "2000"
    assert compose.ours()["migrate"]["environment"]["DATABASE_LOCK_TIMEOUT_MS"] == 2000


def _entries(node: Any, key: str) -> Iterator[Any]:
    """Every element of every list named `key`, at any depth."""
    for found in _lists(node, key):
        yield from found


def _lists(node: Any, key: str) -> Iterator[list[Any]]:
    if isinstance(node, dict):
        for name, value in node.items():
            if name == key and isinstance(value, list):
                yield value
            yield from _lists(value, key)
    elif isinstance(node, list):
        for value in node:
            yield from _lists(value, key)
