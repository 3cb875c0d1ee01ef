"""NVIDIA Triton Inference Server: a server between LoadGen and an engine that another backend of this project makes.

A run renders a model repository from the engine and its own settings, starts the server on it and asks over HTTP; or it
asks a server that is there already. The server computes with its own backend for the engine's library, or with the
session of this project inside its Python backend, which is all that the server in the package nvidia-pytriton has.
"""

from __future__ import annotations

from harness.backends import BackendEngine, BuildPlan, LoadPlan
from harness.backends.triton.building import build_served
from harness.backends.triton.programs import find_program, list_digested
from harness.backends.triton.session import TritonSession
from harness.child.digests import hash_files
from harness.contract import BACKENDS, Fact
from harness.machine.facts import find_distribution_version


def facts() -> dict[str, Fact]:
    """Facts about the server that is installed here. One at an address gives its version itself: ``server.version``."""
    program = find_program("")
    digest = hash_files(program.root, list_digested(program)) if program else ""
    return {
        "backend.version": Fact(value=_version(), role="evidence"),
        "backend.digest": Fact(value=digest, role="evidence"),
    }


def build(plan: BuildPlan) -> BackendEngine:
    """The engine of the backend that ``made_by`` names, in a folder of its own."""
    return build_served(plan, _version())


def load(plan: LoadPlan) -> TritonSession:
    """Raises HarnessError where no server can be started or reached, or where it serves something else."""
    return TritonSession(plan, plan.require_engine("Triton"))


def _version() -> str:
    return find_distribution_version(*BACKENDS["triton"].distributions)
