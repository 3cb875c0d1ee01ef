"""Slices of GPUs (MIG): runs on them, and concurrent loads on others."""
