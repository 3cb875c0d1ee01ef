"""This machine: processors, memory, GPUs and their slices, clocks and telemetry."""
