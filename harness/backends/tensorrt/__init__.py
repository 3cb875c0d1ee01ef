"""TensorRT 8.6, 10.x, 11.x and TensorRT for RTX in one code path. ``versions`` contains all differences between them,
and refuses engines that do not fit this installation."""
