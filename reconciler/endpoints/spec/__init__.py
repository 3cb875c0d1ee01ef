"""Curves in a spec: fields, points placed by the rules, and their checks."""
