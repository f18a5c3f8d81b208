"""What `DiSMEC` asks of this package: train on the GPUs of this machine, or rank labels on one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scipy import sparse

from longtail.core.predictions import Predictions
from longtail.core.run import Run
from longtail.errors import ParameterError
from longtail.linear.gpu import devices
from longtail.linear.gpu.backend import GpuError
from longtail.linear.shards import Shards, merged

if TYPE_CHECKING:  # they load Numba, which predicting one point does not need
    from longtail.linear.gpu.train import Job, Trained


def check_device(device: str, *, warm_start: bool) -> None:
    """Raise ParameterError for what a GPU cannot do."""
    if device == "cuda" and warm_start:
        raise ParameterError("warm_start keeps dual variables on the CPU; set device='cpu' or warm_start=False")


def check_labels(device: str, *, relevances: bool) -> None:
    """Raise ParameterError for labels that a GPU cannot train with; say that the CPU does with device="auto"."""
    if relevances and device == "cuda":
        raise ParameterError("Y has relevances of labels, which only the CPU can use; set device='cpu'")
    if relevances and device == "auto":
        devices.say_fallback("training", ParameterError("relevances of labels are used there"))


def train_on_gpus(device: str, job: Job, run: Run, *, warm_start: bool) -> Trained | None:
    """Train on all GPUs, or return None if the CPU is to do it.

    Parameters
    ----------
    device : {"cuda", "auto"}
        With "auto", whatever is wrong with a GPU is said, and the CPU does the work.
    job : Job
        What to train.
    run : Run
        Progress and checkpoint.
    warm_start : bool
        Whether dual variables are to be kept, which only the CPU does.
    """
    from longtail.linear.gpu.train import train_waves

    if warm_start:  # with "cuda", `check_device` has refused it
        devices.say_fallback("training", ParameterError("warm_start keeps dual variables there"))
        return None
    width = devices.chain_width(job.X.shape[0], job.X.nnz)
    gpus = devices.gpus_for(device, job.options.loss, width, what="training")
    try:
        return train_waves(gpus, job, run) if gpus else None
    except GpuError as error:
        if device != "auto":
            raise
        devices.say_fallback("training", error)
        return None


def top_on_gpu(device: str, shards: Shards, X: sparse.csr_matrix, k: int) -> Predictions | None:
    """Return the k best labels per row of X, or None if the CPU is to rank them: few points, a large k, no GPU.

    Parameters
    ----------
    device : {"cuda", "auto"}
        With "auto", whatever is wrong with a GPU is said, and the CPU does the work.
    shards : Shards
        The model.
    X : (n, D) csr_matrix of float32
        Points.
    k : int
        Labels per point.
    """
    from longtail.linear.gpu.predict import MANY_POINTS, MOST_BEST, GpuScorer

    if X.shape[0] < MANY_POINTS or k > MOST_BEST:
        return None
    gpus = devices.gpus_for(device, "squared-hinge", 32, what="prediction")  # kernels that know no loss
    try:
        return merged([GpuScorer(gpus[0], scorer).top(X, k) for scorer in shards.scorers], k) if gpus else None
    except GpuError as error:
        if device != "auto":
            raise
        devices.say_fallback("prediction", error)
        return None
