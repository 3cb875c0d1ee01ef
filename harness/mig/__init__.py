"""Slices of GPUs (MIG): runs on them, and loads on further ones at the same time."""
