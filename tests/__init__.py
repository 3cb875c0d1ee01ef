"""Tests: ``unit`` mirrors the packages, ``passes`` has whole passes, ``architecture`` proves the rules of structure."""
