"""Diffusion pipelines of PyTorch, as the library diffusers has them on disk: text encoders, networks that take noise
away step by step, and a decoder. Of images and of videos: a module for each class of the library's.

Nothing is built: a run reads the checkpoint. Each stream of each device is a thread with a pipeline of its own
(``harness.backends.image_workers``), over networks that the streams of a device share.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import diffusers
import numpy as np
import torch

from harness.backends import LoadPlan
from harness.backends.diffusers import stable_diffusion_xl, wan
from harness.backends.diffusers.loading import (
    NOT_COMPILED,
    ImageSettings,
    Networks,
    PipelineKind,
    choose_devices,
    find_checkpoint,
    load_networks,
    read_settings,
)
from harness.backends.image_workers import ImageSession, ImageWorker
from harness.child.digests import hash_files
from harness.contract import Fact
from harness.cuda.nvml import collect_device_evidence
from harness.machine.facts import find_distribution_version
from harness.machine.numa import pin_thread_near
from harness.machine.placement import WorkerPlace, place_workers

KINDS: Mapping[str, PipelineKind] = {"StableDiffusionXLPipeline": stable_diffusion_xl.KIND, "WanPipeline": wan.KIND}


def facts() -> dict[str, Fact]:
    folder, library = Path(diffusers.__file__).parent, Path(torch.__file__).parent / "lib"
    return {
        "backend.version": Fact(value=str(diffusers.__version__), role="evidence"),
        "backend.digest": Fact(value=hash_files(folder, folder.rglob("*.py")), role="evidence"),
        "torch.version": Fact(value=str(torch.__version__), role="evidence"),
        "torch.digest": Fact(value=hash_files(library, library.glob("*.so*")), role="evidence"),
        "transformers.version": Fact(value=find_distribution_version("transformers"), role="evidence"),
        **(collect_device_evidence() if torch.cuda.is_available() else {}),
    }


def load(plan: LoadPlan) -> ImageSession:
    """Raises HarnessError where there is no checkpoint, the device is missing, or its networks do not fit the data."""
    checkpoint, devices = find_checkpoint(plan, KINDS), choose_devices(plan)
    kind = KINDS[checkpoint.kind]
    settings, places = read_settings(plan), place_workers(plan.streams, plan.threads)
    openings: list[Callable[[], ImageWorker]] = []
    for device in devices:
        networks = load_networks(kind, checkpoint, plan, device)
        openings += [partial(_open, kind, networks, plan.shared, settings, place) for place in places]
    notes = {
        "devices": [_find_bus(device) for device in devices if device.type == "cuda"],
        "device": devices[0].type,
        "streams": plan.streams,
        "threads": max(place.threads for place in places),
        "precision": plan.precision,
        "steps": settings.steps,
        "guidance": settings.guidance,
        **({} if settings.boundary is None else {"guidance_2": settings.guidance_2, "boundary": settings.boundary}),
        "compile": settings.compiled,
    }
    return ImageSession(plan, openings, notes, padded=settings.compiled != NOT_COMPILED)


def _find_bus(device: torch.device) -> str:
    """Its PCI address, by which telemetry finds it."""
    found = torch.cuda.get_device_properties(device)
    return f"{found.pci_domain_id:04x}:{found.pci_bus_id:02x}:{found.pci_device_id:02x}.0"


def _open(
    kind: PipelineKind,
    networks: Networks,
    shared: Mapping[str, np.ndarray],
    settings: ImageSettings,
    place: WorkerPlace,
) -> ImageWorker:
    """On the thread that it then computes on. OpenMP counts the threads of each thread that calls it."""
    if networks.device.type == "cpu":
        pin_thread_near(place.node, place.processors)
        torch.set_num_threads(place.threads)
    return kind.open_worker(networks, shared, settings)
