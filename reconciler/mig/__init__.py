"""Partition the GPUs of this machine into MIG slices, and remove those made here: the steps as values, a journal
written before and after each step, and the calls of NVIDIA's tool."""
