"""The names of TensorRT that the harness uses, held against every binding that is installed, even one whose libraries
are not: what no machine at hand can run is at least spelled right."""

from __future__ import annotations

import importlib.metadata
import importlib.util
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.backends.tensorrt.versions import version_numbers

ALWAYS = """
build_serialized_network create_builder_config create_network create_optimization_profile max_threads
add_optimization_profile builder_optimization_level clear_flag set_flag set_memory_pool_limit profiling_verbosity
hardware_compatibility_level create_timing_cache get_timing_cache set_timing_cache combine serialize
parse_from_file get_error num_errors desc set_shape num_inputs num_outputs get_input get_output
deserialize_cuda_engine engine_host_code_allowed create_engine_inspector get_engine_information execution_context
num_io_tensors get_tensor_name get_tensor_mode get_tensor_shape get_tensor_dtype get_tensor_profile_shape
create_execution_context active_optimization_profile set_optimization_profile_async set_input_shape
set_tensor_address execute_async_v3 init_libnvinfer_plugins get_plugin_registry load_library
DETAILED WORKSPACE TF32 SPARSE_WEIGHTS VERSION_COMPATIBLE AMPERE_PLUS INPUT JSON
"""
BEFORE_10 = """
EXPLICIT_BATCH FP16 PROFILE_SHARING_0806 device_memory create_execution_context_without_device_memory
NATIVE_INSTANCENORM OBEY_PRECISION_CONSTRAINTS num_layers get_layer precision set_output_type
"""
FROM_10 = """
STRONGLY_TYPED USER_MANAGED set_device_memory get_device_memory_size_for_profile_v2 IProgressMonitor progress_monitor
phase_start step_complete phase_finish SAME_COMPUTE_CAPABILITY node_name node_operator
"""
DISTRIBUTIONS = (
    "tensorrt-bindings",
    "tensorrt-cu12-bindings",
    "tensorrt-cu13-bindings",
    "tensorrt-rtx-cu12-bindings",
    "tensorrt-rtx-cu13-bindings",
)


def installed() -> Iterator[tuple[str, str, Path]]:
    for name in DISTRIBUTIONS:
        try:
            found = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            continue
        modules = [
            Path(str(file.locate()))
            for file in found.files or ()
            if file.name.startswith("tensorrt") and file.suffix == ".so"
        ]
        yield from ((name, found.version, module) for module in modules)


BINDINGS = list(installed())


@pytest.mark.skipif(not BINDINGS, reason="no bindings of TensorRT are installed")
@pytest.mark.parametrize(("name", "version", "module"), BINDINGS, ids=[f"{b[0]}-{b[1]}" for b in BINDINGS])
def test_every_name_is_there(name: str, version: str, module: Path) -> None:
    content = module.read_bytes()
    later = "rtx" in name or version_numbers(version)[0] >= 10
    wanted = (ALWAYS + (FROM_10 if later else BEFORE_10)).split()
    assert not [name for name in wanted if name.encode() not in content]
