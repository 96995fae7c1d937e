"""The standard normal distribution: quantiles by Wichura's AS241 (Applied Statistics 37, 1988), to about 1e-16, and
the distribution function by Hart's rational approximation (Computer Approximations, 1968, number 5666), to about 1e-15.
"""

import numpy as np

Ratio = tuple[tuple[float, ...], ...]


def _read(*polynomials: str) -> Ratio:
    return tuple(tuple(map(float, text.split())) for text in polynomials)


# Numerator and denominator of three rational functions, highest power first: the middle, the tail, the far tail.
_MIDDLE = _read(
    "2.5090809287301226727e3 3.3430575583588128105e4 6.7265770927008700853e4 4.5921953931549871457e4 "
    "1.3731693765509461125e4 1.9715909503065514427e3 1.3314166789178437745e2 3.3871328727963666080e0",
    "5.2264952788528545610e3 2.8729085735721942674e4 3.9307895800092710610e4 2.1213794301586595867e4 "
    "5.3941960214247511077e3 6.8718700749205790830e2 4.2313330701600911252e1 1.0",
)
_TAIL = _read(
    "7.74545014278341407640e-4 2.27238449892691845833e-2 2.41780725177450611770e-1 1.27045825245236838258e0 "
    "3.64784832476320460504e0 5.76949722146069140550e0 4.63033784615654529590e0 1.42343711074968357734e0",
    "1.05075007164441684324e-9 5.47593808499534494600e-4 1.51986665636164571966e-2 1.48103976427480074590e-1 "
    "6.89767334985100004550e-1 1.67638483018380384940e0 2.05319162663775882187e0 1.0",
)
_FAR = _read(
    "2.01033439929228813265e-7 2.71155556874348757815e-5 1.24266094738807843860e-3 2.65321895265761230930e-2 "
    "2.96560571828504891230e-1 1.78482653991729133580e0 5.46378491116411436990e0 6.65790464350110377720e0",
    "2.04426310338993978564e-15 1.42151175831644588870e-7 1.84631831751005468180e-5 7.86869131145613259100e-4 "
    "1.48753612908506148525e-2 1.36929880922735805310e-1 5.99832206555887937690e-1 1.0",
)
# The tail as a multiple of exp(-z²/2), highest power first.
_HART = _read(
    "3.52624965998911e-2 0.700383064443688 6.37396220353165 33.912866078383 "
    "112.079291497871 221.213596169931 220.206867912376",
    "8.83883476483184e-2 1.75566716318264 16.064177579207 86.7807322029461 "
    "296.564248779674 637.333633378831 793.826512519948 440.413735824752",
)
_ROOT = np.sqrt(2 * np.pi)


def normal_quantile(u: np.ndarray) -> np.ndarray:
    """Φ⁻¹((1 + u) / 2) = √2 erf⁻¹(u) for u in (-1, 1)."""
    q = 0.5 * np.asarray(u, float)
    result = q * _ratio(_MIDDLE, 0.180625 - q * q)
    outer = np.abs(q) > 0.425
    if outer.any():
        r = np.sqrt(-np.log(0.5 - np.abs(q[outer])))
        tail = np.where(r <= 5.0, _ratio(_TAIL, r - 1.6), _ratio(_FAR, r - 5.0))
        result[outer] = np.copysign(tail, q[outer])
    return result


def normal_cdf(z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Φ(z) and the density φ(z)."""
    away = np.abs(z)
    bell = np.exp(-0.5 * away * away)
    tail = _ratio(_HART, away)
    tail *= bell
    bell /= _ROOT
    return np.where(z > 0, 1 - tail, tail), bell


def _ratio(pair: Ratio, r: np.ndarray) -> np.ndarray:
    above, below = (_polynomial(coefficients, r) for coefficients in pair)
    above /= below
    return above


def _polynomial(coefficients: tuple[float, ...], r: np.ndarray) -> np.ndarray:
    """Horner's rule in place."""
    value = np.full(r.shape, coefficients[0])
    for coefficient in coefficients[1:]:
        value *= r
        value += coefficient
    return value
