"""Lower precision as part of the model: types and Q/DQ pairs in the ONNX file, so that every backend computes the same.
onnxruntime modifies the graph."""
