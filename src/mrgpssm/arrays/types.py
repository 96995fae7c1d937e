"""Names for the array types used everywhere.

Axes, throughout: `t` steps, `d` latent dimensions, `u` inputs, `y` outputs, `m` inducing points, `z` = d + u.
"""

from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray
from jaxtyping import Key as _Key

Scalar = Float[Array, ""]
Key = PRNGKeyArray
Keys = _Key[Array, "*f"]

__all__ = ["Array", "Bool", "Float", "Int", "Key", "Keys", "Scalar"]
