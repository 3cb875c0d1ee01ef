"""PyTorch diffusion pipelines in the on-disk format of the library diffusers: text encoders, networks that remove noise
step by step, and a decoder. Each pipeline class, for images or videos, has its own module.

Nothing is built, since a run reads the checkpoint. Each stream of each device is a thread with its own pipeline
(``harness.backends.image_workers``); the streams of a device share their networks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import diffusers
import numpy as np
import torch

from harness.backends import LoadPlan, collect_library_facts
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
    more = {
        "torch.version": str(torch.__version__),
        "torch.digest": hash_files(library, library.glob("*.so*")),
        "transformers.version": find_distribution_version("transformers"),
    }
    found = collect_library_facts(str(diffusers.__version__), folder, folder.rglob("*.py"), **more)
    return found | (collect_device_evidence() if torch.cuda.is_available() else {})


def load(plan: LoadPlan) -> ImageSession:
    """Load the pipelines. Raises HarnessError if there is no checkpoint, the device is missing, or the networks do not
    fit the data."""
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
    """Return the device's PCI address, which telemetry uses."""
    found = torch.cuda.get_device_properties(device)
    return f"{found.pci_domain_id:04x}:{found.pci_bus_id:02x}:{found.pci_device_id:02x}.0"


def _open(
    kind: PipelineKind,
    networks: Networks,
    shared: Mapping[str, np.ndarray],
    settings: ImageSettings,
    place: WorkerPlace,
) -> ImageWorker:
    """Called on the thread that will compute, since OpenMP sets the number of threads per calling thread."""
    if networks.device.type == "cpu":
        pin_thread_near(place.node, place.processors)
        torch.set_num_threads(place.threads)
    return kind.open_worker(networks, shared, settings)
