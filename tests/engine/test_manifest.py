"""The Kubernetes manifest of the guide: the fields that KubeRay's API (ray.io/v1) has, with those that it requires."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

GUIDE = Path(__file__).parents[2] / "docs" / "scale-out.md"
# Of RayJobSpec, RayClusterSpec, HeadGroupSpec and WorkerGroupSpec in ray-operator/apis/ray/v1: the required ones first.
JOB = {"entrypoint", "rayClusterSpec", "shutdownAfterJobFinishes", "ttlSecondsAfterFinished", "backoffLimit"}
CLUSTER = {"headGroupSpec"}, {"workerGroupSpecs", "rayVersion", "enableInTreeAutoscaling"}
HEAD = {"rayStartParams", "template"}, {"serviceType"}
WORKERS = {"groupName", "rayStartParams", "template"}, {"replicas", "minReplicas", "maxReplicas", "numOfHosts"}


def test_the_manifest_has_the_fields_of_kuberay():
    (text,) = re.findall(r"```yaml\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    job = yaml.safe_load(text)
    assert (job["apiVersion"], job["kind"]) == ("ray.io/v1", "RayJob")
    assert set(job) == {"apiVersion", "kind", "metadata", "spec"}
    assert set(job["spec"]) <= JOB
    cluster = job["spec"]["rayClusterSpec"]
    groups = [
        (cluster, CLUSTER),
        (cluster["headGroupSpec"], HEAD),
        *((g, WORKERS) for g in cluster["workerGroupSpecs"]),
    ]
    for found, (required, more) in groups:
        assert required <= set(found) <= required | more
    for group in (cluster["headGroupSpec"], *cluster["workerGroupSpecs"]):
        assert all(isinstance(value, str) for value in group["rayStartParams"].values())
        pod = group["template"]["spec"]
        mounted = {mount["name"] for container in pod["containers"] for mount in container["volumeMounts"]}
        assert mounted == {volume["name"] for volume in pod["volumes"]}
        assert all({"name", "image", "resources"} <= set(container) for container in pod["containers"])
