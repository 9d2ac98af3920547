"""Runs in containers and in jobs of a cluster: the job templates of `deploy/pools`, and a worker that uses one."""

import asyncio
import inspect
import json
import os
import re
import signal
import socket
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import docker
import httpx
import pytest
import yaml
from jsonschema import Draft202012Validator
from kubernetes_asyncio.client import models
from prefect.client.schemas.objects import FlowRun
from prefect.settings import PREFECT_API_URL, temporary_settings
from prefect.workers import base
from prefect_docker.worker import DockerWorkerJobConfiguration
from prefect_kubernetes.worker import KubernetesWorkerJobConfiguration

from tests.builders import USER_KEY
from tests.docker_daemon import DockerDaemon
from tests.waiting import free_port, wait_until

ROOT = Path(__file__).parents[2]
POOLS = ROOT / "deploy" / "pools"
WORKER = ROOT / "deploy" / "worker.sh"
BIN = Path(sys.executable).parent
CONFIGURATIONS = {"docker": DockerWorkerJobConfiguration, "kubernetes": KubernetesWorkerJobConfiguration}


def template(kind: str) -> dict[str, Any]:
    return json.loads((POOLS / f"{kind}.json").read_text("utf-8"))


@pytest.fixture
def job_of(scheduling_server: str) -> Callable[..., DockerWorkerJobConfiguration | KubernetesWorkerJobConfiguration]:
    """What a worker makes of a template for a run of the night."""

    def made(kind: str, **values: Any) -> DockerWorkerJobConfiguration | KubernetesWorkerJobConfiguration:
        without_secrets = template(kind)
        without_secrets["variables"]["properties"]["env"].pop("default", None)
        with temporary_settings({PREFECT_API_URL: scheduling_server}):
            job = asyncio.run(CONFIGURATIONS[kind].from_template_and_values(without_secrets, values))
            job.prepare_for_flow_run(FlowRun(id=uuid.uuid4(), flow_id=uuid.uuid4(), name="nightly 2026-01-31"))
        return job

    return made


@pytest.mark.parametrize("kind", ["docker", "kubernetes"])
def test_defaults_of_a_pool_fit_its_schema_and_every_placeholder_is_a_variable(kind):
    variables = template(kind)["variables"]
    Draft202012Validator.check_schema(variables)
    defaults = {name: each["default"] for name, each in variables["properties"].items() if "default" in each}
    Draft202012Validator(variables).validate(defaults)
    placeholders = set(re.findall(r'"\{\{ (\w+) \}\}-?"', json.dumps(template(kind)["job_configuration"])))
    assert placeholders == set(variables["properties"])
    assert all(each["description"] for each in variables["properties"].values())


@pytest.mark.parametrize("kind", ["docker", "kubernetes"])
def test_a_worker_reads_every_key_of_its_template(kind):
    of_kind = sys.modules[CONFIGURATIONS[kind].__module__]
    code = inspect.getsource(of_kind) + inspect.getsource(base)
    keys = template(kind)["job_configuration"]
    assert [key for key in keys if not re.search(rf"(?:self|configuration)\.{key}\b", code)] == []


@pytest.mark.parametrize("kind", ["docker", "kubernetes"])
def test_runs_in_containers_have_the_log_of_the_worker(kind):
    of_worker = dict(re.findall(r"export (PREFECT_LOGGING_\w+)=(\S+)", WORKER.read_text("utf-8")))
    of_runs = template(kind)["variables"]["properties"]["env"]["default"]
    assert of_worker and of_worker.items() <= of_runs.items()
    assert "CURATE_LOG_FORMAT" in of_runs


def wrong_keys(value: Any, kind: str, place: str) -> Iterator[str]:
    """Keys of a manifest that Kubernetes' own model does not have, by the types that its client was generated with."""
    if kind.startswith("list["):
        for number, each in enumerate(value):
            yield from wrong_keys(each, kind[5:-1], f"{place}[{number}]")
        return
    model = getattr(models, kind, None)
    if model is None:
        return
    types = {model.attribute_map[name]: each for name, each in model.openapi_types.items()}
    for key, inner in value.items():
        if key in types:
            yield from wrong_keys(inner, types[key], f"{place}.{key}")
        else:
            yield f"{place}.{key}"


def test_a_run_on_kubernetes_is_a_job_without_root_that_asks_for_cores_memory_and_cards(job_of):
    manifest = job_of("kubernetes", gpus=1, image="registry.example/curation:gpu").job_manifest
    assert list(wrong_keys(manifest, "V1Job", "job")) == []
    pod = manifest["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["command"] + container["args"] == ["/usr/bin/env", "prefect", "flow-run", "execute"]
    assert container["resources"]["limits"] == {"cpu": "2", "memory": "8Gi", "nvidia.com/gpu": 1}
    assert (pod["securityContext"]["runAsNonRoot"], container["image"]) == (True, "registry.example/curation:gpu")
    assert container["envFrom"] == [{"secretRef": {"name": "curate"}}]


def test_without_a_card_none_is_asked_for(job_of):
    (container,) = job_of("kubernetes").job_manifest["spec"]["template"]["spec"]["containers"]
    assert "nvidia.com/gpu" not in container["resources"]["limits"]
    assert "device_requests" not in job_of("docker").container_create_kwargs


def test_a_wrong_name_of_a_pool_is_one_line():
    done = subprocess.run(
        [WORKER],
        env=os.environ | {"CURATE_POOL": "podman"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (2, "CURATE_POOL is 'podman'; use process, docker or kubernetes\n")


def test_a_second_worker_whose_port_of_health_is_taken_is_one_line():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        environment = os.environ | {"PATH": f"{BIN}:{os.environ['PATH']}", "PREFECT_WORKER_WEBSERVER_PORT": str(port)}
        done = subprocess.run([WORKER], env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert f"127.0.0.1:{port}" in done.stderr and "PREFECT_WORKER_WEBSERVER_PORT=" in done.stderr


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[DockerDaemon]:
    (tmp_path / "container").mkdir()
    started = DockerDaemon(tmp_path / "container", f"{BIN}:/usr/bin:/bin")
    yield started
    started.close()


def test_a_container_has_the_card_that_the_template_of_docker_describes(job_of, daemon):
    (described,) = re.findall(
        r"\[\{.*\}\]", template("docker")["variables"]["properties"]["device_requests"]["description"]
    )
    job = job_of("docker", device_requests=json.loads(described))
    client = docker.DockerClient(base_url=daemon.address)
    client.containers.create("arena-curation:gpu", name="night", **job.container_create_kwargs)
    client.close()
    (container,) = daemon.created.values()
    card = {"Driver": "nvidia", "Count": 1, "DeviceIDs": [], "Capabilities": [["gpu"]], "Options": {}}
    assert container["HostConfig"]["DeviceRequests"] == [card]


def test_a_deployed_run_happens_in_a_container_with_the_code_of_its_image(scheduling_server, daemon, tmp_path):
    os.environ["PREFECT_LOGGING_LEVEL"] = "INFO"  # other tests want no lines
    config = tmp_path / "curate.yaml"
    config.write_text(yaml.safe_dump({"logs": str(tmp_path / "no-logs"), "store": str(tmp_path / "store")}), "utf-8")
    with httpx.Client(base_url=scheduling_server, timeout=60) as server:
        kept = _with_secret(server, "curate-user-key", USER_KEY)
        environment = os.environ | {
            "PREFECT_API_URL": scheduling_server,
            "CURATE_CONFIG": str(config),
            "CURATE_POOL": "docker",
            "DOCKER_HOST": daemon.address,
            "PREFECT_HOME": str(tmp_path / "home"),
            "PREFECT_WORKER_WEBSERVER_PORT": str(free_port()),
            "PATH": f"{BIN}:{os.environ['PATH']}",
        }
        with (tmp_path / "worker.out").open("w") as printed, (tmp_path / "worker.log").open("w") as log:
            worker = subprocess.Popen(
                [WORKER],
                cwd=ROOT,
                env=environment,
                stdout=printed,
                stderr=log,
                start_new_session=True,
            )
        try:
            deployment = wait_until(lambda: _deployment(server), worker)
            as_json = {"job_variables": {"env": {"CURATE_LOG_FORMAT": "json"}}}
            there = f"/deployments/{deployment['id']}/create_flow_run"
            run = server.post(there, json=as_json).raise_for_status().json()

            def ended() -> dict[str, Any] | None:
                state = server.get(f"/flow_runs/{run['id']}").json()["state"]
                return state if state["type"] in ("FAILED", "COMPLETED", "CRASHED") else None

            state = wait_until(ended, worker)
            health = f"http://127.0.0.1:{environment['PREFECT_WORKER_WEBSERVER_PORT']}/health"
            assert httpx.get(health).status_code == 200
            ((container, process),) = daemon.processes.items()
            process.wait()
            lines = (daemon.folder / f"{container}.log").read_text("utf-8").splitlines()
            wait_until(lambda: {*lines} <= {*(tmp_path / "worker.out").read_text("utf-8").splitlines()}, worker)
        finally:
            os.killpg(worker.pid, signal.SIGTERM)
            worker.wait(60)
            for each in server.post("/deployments/filter", json={}).json():
                server.delete(f"/deployments/{each['id']}")
            server.delete("/work_pools/curation")
            server.delete(f"/block_documents/{kept}")
    assert state["name"] == "Bad input" and "no-logs" in state["message"], "the flow itself says what is wrong"
    assert any("no-logs" in json.loads(line)["message"] for line in lines), "every line of a run is JSON"
    (created,) = daemon.created.values()
    assert f"CURATE_USER_KEY={USER_KEY}" in created["Env"], "the secret comes from a block of Prefect"
    assert USER_KEY not in json.dumps(deployment), "and stands in no deployment"
    assert str(ROOT) not in json.dumps(deployment), "which names no folder of the machine that deployed it"
    assert (created["HostConfig"]["Memory"], created["HostConfig"]["NanoCpus"]) == (8 * 2**30, 2 * 10**9)
    assert created["HostConfig"]["CapDrop"] == ["ALL"]


def _deployment(server: httpx.Client) -> dict[str, Any] | None:
    answer = server.get("/deployments/name/curate/backfill")
    return answer.json() if answer.status_code == 200 else None


def _with_secret(server: httpx.Client, name: str, value: str) -> str:
    """Make a Secret block, as `prefect block create secret` does; returns its id."""
    kind = server.get("/block_types/slug/secret").raise_for_status().json()["id"]
    schemas = server.post("/block_schemas/filter", json={"block_schemas": {"block_type_id": {"any_": [kind]}}}).json()
    document = {"name": name, "data": {"value": value}, "block_schema_id": schemas[0]["id"], "block_type_id": kind}
    return str(server.post("/block_documents/", json=document).raise_for_status().json()["id"])
