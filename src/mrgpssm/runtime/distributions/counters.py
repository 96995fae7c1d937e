"""Counter-based random numbers: the Threefry-2x32 generator (Salmon et al., 2011) as JAX uses it.

A key is two 32-bit words, a number is a function of key and counter. A simulation therefore draws the same noise here
and by `MRGPSSM.simulate`, whatever the order in which it is asked for.
"""

import numpy as np

from mrgpssm.runtime.distributions.normal import normal_quantile

Words = tuple[np.ndarray, np.ndarray]
_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = np.uint32(0x1BD11BDA)


def threefry(key: Words, counter: Words) -> Words:
    """Twenty rounds of add, rotate and xor; keys and counters are arrays of 32-bit words and broadcast."""
    schedule = (key[0], key[1], key[0] ^ key[1] ^ _PARITY)
    with np.errstate(over="ignore"):  # sums are modulo 2^32, on purpose
        x, y = counter[0] + schedule[0], counter[1] + schedule[1]
        for group in range(5):
            for turn in _ROTATIONS[group % 2]:
                x = x + y
                y = x ^ ((y << np.uint32(turn)) | (y >> np.uint32(32 - turn)))
            x = x + schedule[(group + 1) % 3]
            y = y + schedule[(group + 2) % 3] + np.uint32(group + 1)
    return x, y


def seed_key(seed: int, wide: bool) -> Words:
    """The key of a seed; its upper half counts where 64-bit numbers are on."""
    high = (seed >> 32) & 0xFFFFFFFF if wide else 0
    return _words(high), _words(seed & 0xFFFFFFFF)


def fold_in(key: Words, data: int | np.ndarray) -> Words:
    """A new key for every number in `data`."""
    low = _words(data)
    return threefry(key, (np.zeros_like(low), low))


def normal(key: Words, shape: tuple[int, ...], precision: str) -> np.ndarray:
    """Standard normal numbers of `shape` for every key: √2 erf⁻¹(u) with u uniform on (-1, 1), made in `precision`."""
    count = _words(np.arange(int(np.prod(shape))))
    keys = np.shape(key[0])
    bits = threefry((key[0][..., None], key[1][..., None]), (np.zeros_like(count), count))
    return normal_quantile(_uniform(bits, precision)).reshape(*keys, *shape)


def uniform_pair(key: Words, count: int) -> Words:
    """Two uniform numbers on (0, 1) for every key and counter 0, ..., count - 1, from 32 bits each."""
    counter = _words(np.arange(count))
    bits = threefry((key[0][..., None], key[1][..., None]), (np.zeros_like(counter), counter))
    first, second = ((word + 0.5) / 2.0**32 for word in bits)
    return first, second


def _uniform(bits: Words, precision: str) -> np.ndarray:
    """Uniform on (-1, 1): random bits as the mantissa of a number in [1, 2), moved and stretched in `precision`."""
    if precision == "float32":
        mantissa = ((bits[0] ^ bits[1]) >> np.uint32(9)) | np.uint32(0x3F800000)
        unit = mantissa.view(np.float32) - np.float32(1)
    else:
        both = (bits[0].astype(np.uint64) << np.uint64(32)) | bits[1]
        unit = ((both >> np.uint64(12)) | np.uint64(0x3FF0000000000000)).view(np.float64) - 1.0
    kind = unit.dtype.type
    low = np.nextafter(kind(-1), kind(0))
    return np.maximum(low, unit * (kind(1) - low) + low)


def _words(values: int | np.ndarray) -> np.ndarray:
    return np.asarray(values).astype(np.uint32)
