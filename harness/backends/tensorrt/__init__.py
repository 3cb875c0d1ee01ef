"""TensorRT 8.6, 10.x, 11.x and TensorRT for RTX, by one code path.

``standard`` and ``rtx`` are the two backends; ``versions`` holds everything in which they and their versions differ,
and refuses an engine that does not belong here. ``building`` makes an engine from an ONNX file, with the help of
``profiles``, ``timing`` and ``inspection``, and ``normalisation`` where a version cannot normalise instances itself;
``execution`` runs one through the CUDA pipeline.
"""
