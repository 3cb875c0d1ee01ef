"""TensorRT 8.6, 10.x, 11.x and TensorRT for RTX, by one code path. ``versions`` holds everything in which they differ,
and refuses an engine that does not belong here."""
