"""Lower precision as part of the model: types and Q/DQ pairs in the ONNX file, so that every backend computes the same.

``floats`` changes the float type of a model, ``placing`` decides the places of Q/DQ pairs, ``calibrating`` inserts them
with ranges taken from samples, ``comparing`` says what it cost in accuracy. onnxruntime does the work on the graph.
"""
