"""Code that the benchmarks of object detection share: annotations in COCO's format, the bytes of an answer, the score,
and how a published network's own boxes become outputs with one row per image."""
