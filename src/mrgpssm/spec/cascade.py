"""Which components drive which: in a cascade, the states of slower ones are inputs of the faster ones.

With resolutions R_1, ..., R_L, component l is driven by [u_t, x_t^(j) for every j with R_j > R_l], the j in the order
of the resolutions and x_t^(j) the state of row t, before the step from there. Components of equal resolution do not see
each other, so a walk from slow to fast always has what the next component needs.
"""

from collections.abc import Sequence


def slower(resolutions: Sequence[float], part: int) -> tuple[int, ...]:
    """The components whose states drive component `part`."""
    return tuple(j for j, resolution in enumerate(resolutions) if resolution > resolutions[part])


def slow_to_fast(resolutions: Sequence[float]) -> list[int]:
    """All components, each after those that drive it."""
    return sorted(range(len(resolutions)), key=lambda part: -resolutions[part])
