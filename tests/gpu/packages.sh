#!/bin/bash
# Packages for a machine that has PyTorch 2.11 (CUDA 13, Python 3.12), and reaches no registry.
#
#   bash tests/gpu/packages.sh pack FOLDER [vllm] [sglang] [onnxruntime] [openvino] [extra] [tensorrt]
#       here: resolves and installs each for that Python and packs it into FOLDER/NAME.tar.zst.NN of $PIECE bytes
#       tensorrt: base.tar.zst.NN and trt.tar.zst.NN, which session.sh's part unpack expects; needs Debian's packages of
#       Python 3.11, gcc and readelf
#   bash tests/gpu/packages.sh environment VENV SITE…
#       there: makes an environment of the unpacked folders (cat NAME.tar.zst.?? | zstd -d --long=27 | tar x -C SITE),
#       PyTorch's own and this checkout. A harness starts its children with a clean environment, so PYTHONPATH would not
#       reach them.
#
# extra: what each pass needs with PyTorch; onnxruntime: its CUDA provider; openvino: for rehearsals of language
# models. Run a pass with VENV/bin/python, CUDA_VISIBLE_DEVICES, taskset, and RECONCILE_LOCKS of its own for each GPU.
set -euo pipefail
PIECE=${PIECE:-50000000}
PYTHON=${PYTHON:-python3}
FOR=(--only-binary=:all: --python-version 3.12 --implementation cp --platform linux_x86_64)
for old in manylinux1 manylinux2010 manylinux2014; do FOR+=(--platform "${old}_x86_64"); done
for number in $(seq 40 -1 5); do FOR+=(--platform "manylinux_2_${number}_x86_64"); done

# Wheels without contents, so that nothing is downloaded that is there already.
stubs() { # FOLDER
    "$PYTHON" - "$1" << 'END'
import sys, zipfile
for name, version in {"torch": "2.11.0", "torchvision": "0.26.0", "torchaudio": "2.11.0", "triton": "3.6.0"}.items():
    stem = f"{name}-{version}+stub"
    with zipfile.ZipFile(f"{sys.argv[1]}/{stem}-py3-none-any.whl", "w") as wheel:
        wheel.writestr(f"{stem}.dist-info/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}+stub\n")
        wheel.writestr(f"{stem}.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{stem}.dist-info/RECORD", "")
END
}

# What REQUIREMENT… needs, less what is there or is not used.
resolve() {
    mkdir -p stubs && stubs stubs
    "$PYTHON" -m pip install -q --dry-run --ignore-installed --find-links stubs --report report.json --target none "${FOR[@]}" "$@"
    "$PYTHON" - << 'END'
import json, re
left_out = re.compile(r"torch|torchvision|torchaudio|triton|flashinfer-cubin|(nvidia-)?cuda-.*|opencv.*|tokenspeed-triton|z3-solver|pynvvideocodec|gradio|boto.*|modelscope|pyarrow")
for item in json.load(open("report.json"))["install"]:
    name = item["metadata"]["name"].lower().replace("_", "-")
    if not left_out.fullmatch(name):
        print(f"{name}=={item['metadata']['version']}")
END
}

pack() { # NAME
    local wanted
    case $1 in
        vllm) mapfile -t wanted < <(resolve vllm==0.26.0 mlcommons-loadgen==5.1.2) ;;
        sglang) mapfile -t wanted < <(resolve sglang==0.5.15.post1) ;;
        onnxruntime) wanted=(onnxruntime-gpu==1.31.1) ;;
        openvino) wanted=(openvino openvino-telemetry openvino-genai openvino-tokenizers nltk rouge-score absl-py six joblib) ;;
        extra)
            wanted=(GitPython gitdb smmap ruamel.yaml ruamel.yaml.clib watchdog jsonschema jsonschema-specifications referencing
                rpds-py attrs msgspec pydantic pydantic-core annotated-types typing-extensions typing-inspection nibabel
                mlcommons-loadgen==5.1.2 $(sed '/^#/d' "$CHECKOUT/tests/gpu/images-packages.txt"))
            ;;
    esac
    [ ${#wanted[@]} -gt 0 ] || { echo "packages.sh: nothing to pack for $1" >&2; return 1; }
    rm -rf "$1" "$1".tar.zst.*
    "$PYTHON" -m pip install -q --no-deps --no-compile --target "$1" "${FOR[@]}" "${wanted[@]}"
    rm -rf "$1"/sgl_kernel/sm100 "$1"/tilelang "$1"/nvidia/mathdx "$1"/onnxruntime/capi/libonnxruntime_providers_tensorrt.so
    find "$1" \( -name tests -o -name __pycache__ \) -type d -prune -exec rm -rf {} +
    tar c -C "$1" . | zstd -q -T0 -9 --long=27 | split -b "$PIECE" -d - "$1.tar.zst."
    ls -l "$1".tar.zst.*
}

# TensorRT 8.6, the last whose libraries are in a wheel, with a Python 3.11, for which it has bindings.
pack_tensorrt() {
    local for_311=(--only-binary=:all: --python-version 3.11 --implementation cp "${FOR[@]:5}")
    rm -rf tensorrt base.tar.zst.* trt.tar.zst.*
    mkdir -p tensorrt/{wheels,base/{python,site,tools,trt},trt} && cd tensorrt
    "$PYTHON" -m pip download -q --no-deps --only-binary=:all: --python-version 3.10 --abi none --implementation cp --platform manylinux_2_17_x86_64 -d wheels tensorrt==8.6.0
    "$PYTHON" -m zipfile -e wheels/tensorrt-8.6.0-*.whl wheels
    mv wheels/tensorrt/*.so* trt
    stand_ins trt base/trt
    (cd wheels && apt-get download -q python3.11 python3.11-minimal libpython3.11-minimal libpython3.11-stdlib)
    for package in wheels/*.deb; do dpkg -x "$package" base/python; done
    "$PYTHON" -m pip install -q --no-deps --no-compile --target base/site "${for_311[@]}" tensorrt-bindings==8.6.1
    sed '/^mlcommons_loadgen==/d' "$CHECKOUT/.ci/constraints.txt" > constraints.txt
    "$PYTHON" -m pip install -q --no-compile --target base/site "${for_311[@]}" --constraint constraints.txt numpy onnx onnxruntime \
        sympy ml_dtypes mlcommons-loadgen==5.1.2 GitPython ruamel.yaml watchdog jsonschema msgspec pydantic psutil nibabel \
        pycocotools opencv-python-headless nvidia-ml-py cuda-bindings cuda-pathfinder pytest pytest-timeout pytest-xdist
    find base/site \( -name tests -o -name __pycache__ \) -type d -prune -exec rm -rf {} +
    cp "$(command -v zstd)" /usr/lib/x86_64-linux-gnu/liblz4.so.1 base/tools
    tar c -C base . | zstd -q -T0 -9 --long=30 | split -b "$PIECE" -d - ../base.tar.zst.
    tar c -C trt . | zstd -q -T0 -9 --long=30 | split -b "$PIECE" -d - ../trt.tar.zst.
    cd ..
    ls -l base.tar.zst.* trt.tar.zst.*
}

# Libraries that TensorRT 8.6's plug-ins are linked with and its engines do not use: each wanted name aborts.
stand_ins() { # LIBRARIES FOLDER
    local library
    for library in libcublas.so.12 libcublasLt.so.12 libcudnn.so.8; do
        readelf -Ws --dyn-syms "$1"/libnvinfer*.so.8 "$1"/libnv*parser*.so.8 | sed -n "s/.* UND \([A-Za-z0-9_]*\)@$library.*/\1/p" | sort -u |
            sed '1i #include <stdlib.h>' | sed '2,$s/.*/int &(void) { abort(); }/' > stand-in.c
        echo "$library { global: *; };" > stand-in.map
        gcc -shared -fPIC "-Wl,-soname,$library,--version-script=stand-in.map" -o "$2/$library" stand-in.c
    done
}

environment() { # VENV SITE…
    local venv=$1 torch
    shift
    torch=$(python3 -c 'import os, torch; print(os.path.dirname(os.path.dirname(torch.__file__)))')
    python3 -m venv --without-pip "$venv"
    python3 - "$venv"/lib/python3.*/site-packages "$torch" "$CHECKOUT" "$@" << 'END'
import pathlib, sys
site, torch, checkout, *folders = sys.argv[1:]
paths = {"a-packages": f"import sys; sys.path[0:0] = {folders!r}", "b-checkout": checkout, "c-torch": f"import site; site.addsitedir({torch!r})"}
for name, line in paths.items():
    pathlib.Path(site, f"{name}.pth").write_text(line + "\n")
END
}

CHECKOUT=$(cd "$(dirname "$0")/../.." && pwd)
case ${1:-} in
    pack)
        mkdir -p "$2" && cd "$2"
        shift 2
        for name in "${@:-extra}"; do if [ "$name" = tensorrt ]; then pack_tensorrt; else pack "$name"; fi; done
        ;;
    environment) environment "${@:2}" ;;
    *) sed -n '2,15s/^# \{0,1\}//p' "$0" ;;
esac
