"""Cutting the GPUs of this machine into slices (MIG), and joining again what was cut here: the steps, as values; what
was made, written down before and after each step; the tool that does it."""
