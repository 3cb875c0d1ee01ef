"""Code that the benchmarks of object detection share: annotations in COCO's format, the bytes of an answer, the score,
and how a published network's own boxes become outputs with one row per image.

``coco``: what is on disk; ``answers``: from boxes to responses; ``scoring``: mAP; ``published_network``: the model;
``ranking``: the best scores of a network that ends at its heads; ``generated_detector``: a rehearsal's images and
network.
"""
