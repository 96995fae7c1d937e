"""One set of colours for print and screen, after Okabe and Ito, that colour-blind people can distinguish."""

_ROLES = {  # on a light and on a dark background
    "measured": ("#1c1c1e", "#f2f2f4"),
    "model": ("#0072b2", "#56b4e9"),
    "residual": ("#c44e00", "#ff9a4d"),
    "part1": ("#8a5fbf", "#b898e6"),
    "part2": ("#d55e00", "#ff8a3d"),
    "part3": ("#009e73", "#2fc99b"),
    "part4": ("#b8860b", "#e6c04a"),
    "part5": ("#0072b2", "#56b4e9"),
    "part6": ("#cc5f9a", "#f08fc0"),
    "muted": ("#6b7280", "#9aa1ac"),
    "faint": ("#c9cdd4", "#676d78"),
}
LIGHT, DARK = ({name: pair[side] for name, pair in _ROLES.items()} for side in (0, 1))
PARTS = tuple(name for name in LIGHT if name.startswith("part"))

# From low to high (viridis), and from negative to positive through nothing, per background.
SEQUENTIAL = ("#440154", "#3b528b", "#21918c", "#5ec962", "#fde725")
DIVERGING_LIGHT = ("#2166ac", "#92c5de", "#f7f7f7", "#f4a582", "#b2182b")
DIVERGING_DARK = ("#6db3f2", "#2a5d8f", "#1f2126", "#8f4a2a", "#ff9a6b")


def part_role(index: int) -> str:
    """The colour role of a component by its index."""
    return PARTS[index % len(PARTS)]
