"""Concepts shared by all stages: kinds, addresses, cells, inputs, keys, conditions. No I/O, no clock."""
