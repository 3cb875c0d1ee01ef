"""Shared code of the object detection benchmarks: annotations in COCO's format, the bytes of an answer, the score, and
the conversion of a published network's boxes to outputs with one row per image."""
