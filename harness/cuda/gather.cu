// Copies the rows of a batch, which lie anywhere in memory that the device can read, one after the other.
// gather.ptx is made from this file; the version line is lowered so that drivers since CUDA 11 take it:
//   nvcc -ptx -arch=compute_75 -o - gather.cu | sed 's/^\.version .*/.version 7.0/' > gather.ptx
// A row is ``units`` words of the kernel's width; blocks share a row along x and take turns at rows along y. Four loads
// are in flight per thread: from host memory it is the latency of PCIe that they hide, so a handful of blocks saturates
// the link and leaves the device to the engine.

#define IN_FLIGHT 4

template <typename Word>
__device__ void copy_row(Word* to, const Word* from, long long units)
{
    const long long step = (long long)gridDim.x * blockDim.x;
    long long at = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    for (; at + (IN_FLIGHT - 1) * step < units; at += IN_FLIGHT * step) {
        Word words[IN_FLIGHT];
#pragma unroll
        for (int i = 0; i < IN_FLIGHT; ++i) words[i] = from[at + i * step];
#pragma unroll
        for (int i = 0; i < IN_FLIGHT; ++i) to[at + i * step] = words[i];
    }
#pragma unroll 1
    for (; at < units; at += step) to[at] = from[at];
}

template <typename Word>
__device__ void copy_rows(Word* to, const Word* from, const long long* rows, long long units, int count)
{
    for (int row = blockIdx.y; row < count; row += gridDim.y) copy_row(to + row * units, from + rows[row] * units, units);
}

#define KERNEL(name, Word)                                                                                             \
    extern "C" __global__ void name(Word* to, const Word* from, const long long* rows, long long units, int count)     \
    {                                                                                                                  \
        copy_rows(to, from, rows, units, count);                                                                       \
    }

KERNEL(gather16, int4)
KERNEL(gather4, int)
KERNEL(gather1, char)
