"""Desired, recorded, observed -> changes, drift and findings. Pure: values in, frozen values out; no I/O, no clock."""
