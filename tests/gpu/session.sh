#!/bin/bash
# Everything on one machine with an NVIDIA GPU: bash tests/gpu/session.sh [PART…]
#
#   env       what is here: device, driver, versions
#   unpack    put together an environment of its own from archives in $KEEP (see below); needed only where none is there
#   copies    how fast samples come to the device
#   tests     right or wrong: outputs, faults, whole passes            (about 4 minutes)
#   ceiling   the pipeline without an engine against LoadGen alone     (about 1 minute)
#   SHAPE     resnet-fp16, resnet-int8, bert-fp16, unet3d-fp16, retinanet-fp16: engine and figures  (3 to 9 minutes each); $BATCH replaces its batch
#   ort       the figures of resnet-fp16 by ONNX Runtime's CUDA provider; $RUN_OPTIONS, such as {"fused_bias": true, "capture": true}   (2 to 5 minutes)
#   torch-SHAPE  those of SHAPE by the PyTorch backend; torch-tests: its outputs   (3 minutes each)
#   language-SHAPE  vLLM: Offline over LLM.generate, a server over HTTP, Server in the process; $LANGUAGE_OPTIONS, as of
#             tests.gpu.language, such as --seconds 90   (15 minutes each)
#   speech    Whisper through vLLM: Offline over LLM.generate; $SPEECH_OPTIONS, as of tests.gpu.speech   (7 minutes)
#   images    Stable Diffusion XL: Offline over the plain loop of diffusers; $IMAGE_OPTIONS, as of tests.gpu.images   (5 minutes)
#   images-fp8  the same in fp8: error, painter without LoadGen, Offline of $SECONDS_EACH (62) and more, $REPEATS (3) times   (12 minutes)
#   videos    Wan 2.2: the same; $VIDEO_OPTIONS, as of tests.gpu.videos, such as --steps 2   (9 minutes)
#   dlrm      DLRM-DCNv2 in fp8 by the PyTorch backend: the engine alone, Offline of $SECONDS_EACH (62), $REPEATS (3) times, Server   (10 minutes;
#             $ONLY for its parts, also outputs and accuracy); dlrm-fp16: compiled by AOTInductor; fused-tiles: its kernels alone, by tile
#   bert-packed  BERT without padding in fp8: outputs, F1 of a trained network, three Offline runs of $SECONDS_EACH (62), Server   (14 minutes;
#             $ONLY for its parts)
#   whole     complete passes of five benchmarks, from generated data to the tree, and a second one   (7 minutes each and more; $ONLY for one)
#   scaling   Offline of resnet-int8 and bert-fp16 on all devices over each alone
#   first, second, third: everything, in three parts of less than ten minutes each with two devices; all: the three
#   serve-SHAPE  its Server figures alone; $SERVER_WAYS replaces what is tried (see tests.gpu.measure)
#
# Two devices measure different shapes at the same time, each with half of the processors.
#
# ``python -m tests.gpu.report FILE…`` puts the JSON files together, each figure next to its goal.
#
# Reports go to $OUT (default: ./gpu-report), one JSON file each, with the command that repeats it. Engines, datasets and
# timing caches are kept in $GPU_WORK (default: $KEEP/work).
#
# Where no registry can be reached, tests/gpu/packages.sh makes an environment; $TORCH_PYTHON is its Python. For TensorRT
# 8.6, $KEEP holds base.tar.zst.NN (bin/zstd, python/ with a Python 3.11, site/ with its packages and those of the tests,
# trt/ with stand-ins for libraries that are linked and not used) and trt.tar.zst.NN (its libraries), both cut in pieces
# and made with zstd --long=30.
set -uo pipefail
cd "$(dirname "$0")/../.."
KEEP=${KEEP:-$HOME/keep}
OUT=${OUT:-$PWD/gpu-report}
export GPU_WORK=${GPU_WORK:-$KEEP/work}
mkdir -p "$OUT" "$GPU_WORK"
PYTHON=python3
TORCH_PYTHON=${TORCH_PYTHON:-env -u LD_LIBRARY_PATH python3}

environment() {
    if [ -x "$KEEP/python/usr/bin/python3.11" ]; then
        PYTHON=$KEEP/python/usr/bin/python3.11
        local packages=$KEEP/python/usr/lib/python3/dist-packages
        mkdir -p "$packages"
        printf '%s\n%s\n' "$KEEP/site" "$PWD" > "$packages/gpu.pth"
        local cuda
        cuda=$(python3 -c 'import glob, os, nvidia; print(":".join(glob.glob(os.path.join(list(nvidia.__path__)[0], "*/lib"))))' 2>/dev/null)
        export LD_LIBRARY_PATH=$KEEP/trt${cuda:+:$cuda}${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    fi
    export PYTHONUNBUFFERED=1
}

unpack() {
    mkdir -p "$KEEP/python" && cd "$KEEP" || return
    # The first archive is small enough to be read by whatever zstd is here; the second is read by the one it brings.
    local zstd
    zstd=$(command -v zstd || echo "env LD_LIBRARY_PATH=$KEEP/tools $KEEP/tools/zstd")
    cat base.tar.zst.?? | $zstd -q -d --long=30 | tar x -C "$KEEP" &
    mkdir -p trt && cat trt.tar.zst.?? | $zstd -q -d --long=30 | tar x -C "$KEEP/trt"
    wait
    cd - > /dev/null || return
    environment
}

report() { # NAME COMMAND…
    local name=$1
    shift
    echo "== $name: $*"
    "$@" > "$OUT/$name.log" 2>&1
    local status=$?
    tail -n "${TAIL:-25}" "$OUT/$name.log" | cut -c 1-2500
    echo "== $name ended with $status"
}

# LIST LIST: each on a device of its own where there are two, else one after the other.
beside() {
    local half=$(($(nproc) / 2)) list
    if [ "$(nvidia-smi -L | wc -l)" -lt 2 ]; then
        for each in $1 $2; do part $each; done
        return
    fi
    for list in 0 1; do
        (
            export CUDA_VISIBLE_DEVICES=$list
            taskset -p -c $((list * half))-$((list * half + half - 1)) $BASHPID > /dev/null
            for each in $([ $list = 0 ] && echo "$1" || echo "$2"); do part $each; done
        ) &
    done
    wait
}

part() {
    case $1 in
        env)
            nvidia-smi -L; nvidia-smi --query-gpu=driver_version,memory.total,power.limit,clocks.sm --format=csv; nproc
            ls /proc/driver/nvidia/gpus 2>&1; command -v git zstd
            report env "$PYTHON" -c 'import cuda.bindings, numpy, tensorrt_bindings as t, onnxruntime as o; print(t.__version__, o.__version__, o.get_available_providers(), numpy.__version__, cuda.bindings.__version__)'
            ;;
        unpack) unpack ;;
        copies) report copies "$PYTHON" -m tests.gpu.copies; tail -n 1 "$OUT/copies.log" > "$OUT/copies.json" ;;
        tests) GPU_LEVEL=1 TAIL=90 report tests "$PYTHON" -m pytest -m gpu ${TESTS:-tests/gpu} ${K:+-k "$K"} -q -rfEs -s -W default -p no:cacheprovider --durations=8 ;;
        torch-tests) TAIL=60 report torch-tests $TORCH_PYTHON -m pytest -m gpu tests/gpu/test_outputs.py tests/gpu/test_packed.py tests/gpu/test_fused.py -k 'pytorch or packed or fused' -q -rfEs -W default -p no:cacheprovider --durations=8 ;;
        torch-*) report "$1" $TORCH_PYTHON -m tests.gpu.measure "${1#torch-}" --backend pytorch-cuda --rounds "${ROUNDS:-2}" --only "${ONLY:-offline,single,server}" --json "$OUT/$1.json" ;;
        language-*) report "$1" $TORCH_PYTHON -m tests.gpu.language --shape "${1#language-}" --json "$OUT/$1.json" ${ONLY:+--only $ONLY} ${LANGUAGE_OPTIONS:-} ;;
        speech) report speech $TORCH_PYTHON -m tests.gpu.speech --json "$OUT/speech.json" ${SPEECH_OPTIONS:-} ;;
        videos) report videos $TORCH_PYTHON -m tests.gpu.videos --json "$OUT/videos.json" ${ONLY:+--only $ONLY} ${VIDEO_OPTIONS:-} ;;
        images) report images $TORCH_PYTHON -m tests.gpu.images --json "$OUT/images.json" ${ONLY:+--only $ONLY} ${IMAGE_OPTIONS:-} ;;
        images-fp8) report images-fp8 env SECONDS="${SECONDS_EACH:-62}" $TORCH_PYTHON -m tests.gpu.images --precision fp8 --compile default --channels-last --only "${ONLY:-error,painter,sustained}" --json "$OUT/images-fp8.json" ${IMAGE_OPTIONS:-} ;;
        dlrm) report dlrm env SECONDS="${SECONDS_EACH:-62}" $TORCH_PYTHON -m tests.gpu.dlrm --json "$OUT/dlrm.json" ${ONLY:+--only $ONLY} ;;
        dlrm-fp16) report dlrm-fp16 env SECONDS="${SECONDS_EACH:-62}" $TORCH_PYTHON -m tests.gpu.dlrm --size fp16 --json "$OUT/dlrm-fp16.json" ${ONLY:+--only $ONLY} ;;
        fused-tiles) report fused-tiles $TORCH_PYTHON -m tests.gpu.fused_tiles ;;
        bert-packed) report bert-packed env SECONDS="${SECONDS_EACH:-62}" $TORCH_PYTHON -m tests.gpu.bert_packed --json "$OUT/bert-packed.json" ${ONLY:+--only $ONLY} ;;
        whole) report whole env SECONDS="${SECONDS_EACH:-62}" $TORCH_PYTHON -m tests.gpu.whole --json "$OUT/whole.json" ${ONLY:+--only $ONLY} ;;
        ceiling) report ceiling "$PYTHON" -m tests.gpu.ceiling; tail -n 1 "$OUT/ceiling.log" > "$OUT/ceiling.json" ;;
        first) beside "env resnet-int8 ort" "copies ceiling bert" ;;
        second) beside "tests serve-bert-fp16" "resnet-fp16" ;;
        third) part scaling ;;
        all) for each in first second third; do part $each; done ;;
        scaling)
            for each in ${SCALED:-resnet-int8 resnet-fp16 bert-fp16}; do
                report "scaling-$each" "$PYTHON" -m tests.gpu.measure $each --only scaling --rounds "${ROUNDS:-2}" --json "$OUT/scaling-$each.json"
            done
            ;;
        bert) ONLY=offline,single part bert-fp16 ;;
        serve-*) report "$1" "$PYTHON" -m tests.gpu.measure "${1#serve-}" --only server --json "$OUT/$1.json" ;;
        ort) report ort "$PYTHON" -m tests.gpu.measure resnet-fp16 --backend onnxruntime-cuda --only "${ONLY:-offline,single,server}" --rounds 1 --json "$OUT/ort.json" ;;
        *) report "$1" "$PYTHON" -m tests.gpu.measure "$1" --json "$OUT/$1${BATCH:+-$BATCH}.json" --rounds "${ROUNDS:-2}" ${BATCH:+--batch $BATCH} ${ONLY:+--only $ONLY} ;;
    esac
    cp -f "$GPU_WORK"/gpu-work/timing-*.cache "$OUT"/ 2> /dev/null
}

environment
for name in "${@:-env}"; do part "$name"; done
