"""GPUs that are cut into slices (MIG), on a machine without any: NVIDIA's own Python library over a stand-in of the
driver's, compiled for the test, and a stand-in of nvidia-smi that changes what it answers."""
