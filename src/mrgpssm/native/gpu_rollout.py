"""How `rollout.cu` is cut into blocks, compiled and launched."""

import math
from dataclasses import dataclass

import numpy as np

from mrgpssm.native import gpu

MOST_THREADS = 240  # a block; two blocks of these share a multiprocessor
MOST_INDUCING, MOST_DIMS = 96, 8
_RESERVED = 1024  # shared memory that each block costs beside its own
_FEW = 4096  # so many warps take a step sooner with a warp than with a thread per particle and dimension


@dataclass(frozen=True)
class Shape:
    """What the kernels are compiled for."""

    dtype: str
    inducing: int
    dims: int
    samples: int
    windows: int

    @property
    def particles(self) -> int:
        """Particles in a block."""
        return self.windows * self.samples

    @property
    def threads(self) -> int:
        """Threads in a block, whole warps."""
        return -(-self.particles * self.dims // 32) * 32

    @property
    def groups(self) -> int:
        """Groups of windows that sum over samples side by side."""
        return max(1, min(self.threads // (self.dims * self.inducing), self.windows))

    @property
    def resident(self) -> int:
        """Blocks that fit on a multiprocessor; the compiler needs the number to assign registers."""
        return min(2 if self.dtype == "float32" else 1, gpu.shared_bytes() // (self.bytes["backward"] + _RESERVED))

    @property
    def bytes(self) -> dict[str, int]:
        """Shared memory of every kernel, as laid out in `rollout.cu`."""
        d, m = self.dims, self.inducing
        fours = -(-m // 4)
        padded, triangle = 4 * fours, 8 * fours * (fours + 1)
        stride = (self.particles + 3) // 8 * 8 + 4
        size = np.dtype(self.dtype).itemsize
        ahead = d * triangle + d * m * stride + -(-d * m * d // 4) * 4 + 2 * d * stride
        back = 2 * d * triangle + 2 * d * padded * stride + (4 + d) * d * stride + d * m * d
        return {"forward": size * ahead, "forward_few": 0, "backward": size * back}

    @property
    def kernels(self) -> tuple[str, tuple[str, ...], tuple[tuple[str, int], ...]]:
        """The source, what it is compiled with, and the shared memory of its kernels."""
        real = {"float32": "float", "float64": "double"}[self.dtype]
        letters = {"M": self.inducing, "D": self.dims, "S": self.samples, "W": self.windows, "RESIDENT": self.resident}
        defines = (f"REAL={real}", *(f"{letter}={number}" for letter, number in letters.items()))
        return "rollout.cu", defines, tuple(self.bytes.items())


def block_shape(dtype: str, inducing: int, dims: int, samples: int, windows: int) -> Shape | None:
    """The number of whole windows per block that uses a multiprocessor best; None if not even one fits."""
    if inducing > MOST_INDUCING or dims > MOST_DIMS or samples * dims > 2 * MOST_THREADS:
        return None
    shapes = []
    for most in range(1, max(1, MOST_THREADS // (samples * dims)) + 1):
        blocks = -(-windows // most)
        shape = Shape(dtype, inducing, dims, samples, -(-windows // blocks))
        if shape.resident > 0:
            shapes.append(shape)
    return max(shapes, key=lambda shape: shape.resident * shape.particles, default=None)


def usable(shape: Shape | None) -> bool:
    """Whether the kernels of this shape can be used here."""
    return shape is not None and gpu.usable(*shape.kernels)


def launch(name: str, shape: Shape, windows: int, steps: int) -> dict:
    """A launch of kernel `name` for so many windows and steps per member."""
    plain = gpu.launch(
        gpu.load_kernels(*shape.kernels),
        name,
        blocks=-(-windows // shape.windows),
        threads=shape.threads,
        size=shape.bytes[name],
        rank=3,
        numbers=(windows, steps),
    )
    if name == "backward":
        return plain
    pairs = windows * shape.samples * shape.dims
    few = {"members": math.ceil(_FEW / pairs), "blocks": windows * shape.samples, "threads": 32 * shape.dims}
    return plain | {f"few_{word}": np.int64(number) for word, number in few.items()}
