"""Made-up images at the size of the official dataset, and a net that costs a millisecond or more per image on one core.

Each of the 50,000 images has one bright band of ten; the class is where it lies. The net finds it with a matched
filter, next to a stack of random convolutions that only costs time: its share of the scores is too small to change one.
"""

import numpy as np

SYNTHETIC = True
COUNT, SIDE, CLASSES, CHANNELS, LAYERS = 50_000, 20, 10, 64, 10
BAND = SIDE // CLASSES


def build_dataset(source, settings, output, counter):
    rng = np.random.default_rng(int(settings.get("seed", 1)))
    labels = rng.integers(0, CLASSES, COUNT)
    counter.stage("building", COUNT)
    images = rng.standard_normal((COUNT, 1, SIDE, SIDE), dtype=np.float32)
    for row in range(BAND):
        images[np.arange(COUNT), 0, labels * BAND + row] += 0.3
    counter.bump(COUNT)
    np.save(output / "samples.npy", images)
    np.save(output / "labels.npy", labels.astype(np.int32))


def build_model(source, settings, inputs, output, counter):
    from onnx import TensorProto, checker, helper, numpy_helper, save

    rng = np.random.default_rng(2)
    template = np.zeros((CLASSES, SIDE * SIDE), np.float32)
    for label in range(CLASSES):
        template[label].reshape(SIDE, SIDE)[label * BAND : (label + 1) * BAND] = 1
    weights = {"template": template, "mix": (rng.standard_normal((CLASSES, CHANNELS)) * 1e-9).astype(np.float32)}
    nodes, last, depth = [], "image", 1
    for layer in range(LAYERS):
        name = f"conv{layer}"
        weights[name] = (rng.standard_normal((CHANNELS, depth, 3, 3)) / (3 * depth**0.5)).astype(np.float32)
        nodes.append(helper.make_node("Conv", [last, name], [f"{name}_sums"], kernel_shape=[3, 3], pads=[1, 1, 1, 1]))
        nodes.append(helper.make_node("Relu", [f"{name}_sums"], [f"{name}_out"]))
        last, depth = f"{name}_out", CHANNELS
    nodes += [
        helper.make_node("GlobalAveragePool", [last], ["pooled"]),
        helper.make_node("Flatten", ["pooled"], ["features"]),
        helper.make_node("Gemm", ["features", "mix"], ["noise"], transB=1),
        helper.make_node("Flatten", ["image"], ["pixels"]),
        helper.make_node("Gemm", ["pixels", "template"], ["bands"], transB=1),
        helper.make_node("Add", ["bands", "noise"], ["scores"]),
    ]
    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", 1, SIDE, SIDE])
    scores = helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["batch", CLASSES])
    initializers = [numpy_helper.from_array(value, name) for name, value in weights.items()]
    graph = helper.make_graph(nodes, "bands", [image], [scores], initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    checker.check_model(model)
    save(model, output / "model.onnx")
