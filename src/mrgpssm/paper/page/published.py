"""The paper's own numbers, by the label of the table they stand in: mean and standard error, None for "> 1000".

Its nLL is not defined there; it is about 30 times the mean per step in normalised units, so only its pattern compares.
"""

Number = tuple[float, float] | None
Table = dict[str, dict[str, dict[str, Number]]]


def _rows(methods: tuple[str, ...], text: str) -> dict[str, dict[str, Number]]:
    """Lines of `row | mean (se) | ...` by row and method."""
    table = {}
    for line in text.strip().splitlines():
        row, *cells = (part.strip() for part in line.split("|"))
        table[row] = dict(zip(methods, map(_number, cells), strict=True))
    return table


def _number(cell: str) -> Number:
    if cell.startswith(">"):
        return None
    mean, error = cell.rstrip(")").split("(")
    return float(mean), float(error)


SYNTHETIC_METHODS: tuple[str, ...] = (
    "GPSSM R=1",
    "GPSSM R=30",
    "MC-GPSSM R=[1,1]",
    "MC-GPSSM R=[30,30]",
    "MR-GPSSM R=[30,1]",
)
ENGINE_METHODS: tuple[str, ...] = (
    "GPSSM R=1",
    "GPSSM R=5",
    "GPSSM R=30",
    "MC-GPSSM R=[30,30,30]",
    "MC-GPSSM R=[5,5,5]",
    "MC-GPSSM R=[1,1,1]",
    "MR-GPSSM R=[30,5,1]",
)
SENSITIVITY_METHODS: tuple[str, ...] = (
    "MR-GPSSM R=[30,5,1]",
    "MR-GPSSM R=[7,5,1]",
    "MR-GPSSM R=[40,20,10]",
    "MR-GPSSM R=[40,20]",
    "MR-GPSSM R=[30,15,7,5,1]",
    "MR-GPSSM R=[40,20,10,5,1]",
)
BATCH_METHODS: tuple[str, ...] = (
    "GPSSM R=30, B=50",
    "MC-GPSSM R=[30,30], B=50",
    "GPSSM R=1, B=1500, equal steps",
    "MC-GPSSM R=[1,1], B=1500, equal steps",
    "GPSSM R=1, B=1500, equal time",
    "MC-GPSSM R=[1,1], B=1500, equal time",
)

SYNTHETIC: Table = {  # table:synthetic and table:synthetic2
    "rmse": _rows(
        SYNTHETIC_METHODS,
        """
        F  | 0.05 (0.00) | 0.14 (0.00) | 0.06 (0.01) | 0.16 (0.01) | 0.07 (0.01)
        M1 | 0.16 (0.02) | 0.14 (0.00) | 0.15 (0.01) | 0.15 (0.00) | 0.08 (0.01)
        M2 | 0.14 (0.00) | 0.29 (0.11) | 0.14 (0.00) | 0.20 (0.01) | 0.09 (0.01)
        S  | 0.33 (0.08) | 0.16 (0.01) | 0.29 (0.02) | 0.20 (0.03) | 0.17 (0.02)
        """,
    ),
    "nll": _rows(
        SYNTHETIC_METHODS,
        """
        F  | -33.42 (0.95) | -15.58 (0.75) | -36.02 (3.40) | -6.29 (6.92)   | -35.29 (2.58)
        M1 | -6.26 (6.37)  | -15.96 (0.71) | -11.03 (2.43) | -13.87 (0.97)  | -31.49 (2.85)
        M2 | -13.11 (0.89) | 50.33 (58.55) | -11.38 (0.57) | -5.59 (1.06)   | -27.75 (3.27)
        S  | > 1000        | -4.45 (3.82)  | 81.34 (45.95) | 153.65 (73.95) | 41.83 (18.37)
        """,
    ),
}
ENGINE: Table = {  # table:emission
    "rmse": _rows(
        ENGINE_METHODS,
        """
        PN   | 0.39 (0.02) | 0.37 (0.03) | 0.49 (0.03) | 0.48 (0.02) | 0.40 (0.02) | 0.42 (0.01) | 0.41 (0.02)
        HC   | 0.31 (0.02) | 0.28 (0.01) | 0.42 (0.02) | 0.43 (0.03) | 0.30 (0.02) | 0.56 (0.12) | 0.32 (0.02)
        NOx  | 0.14 (0.01) | 0.13 (0.00) | 0.40 (0.01) | 0.41 (0.01) | 0.14 (0.01) | 0.19 (0.02) | 0.14 (0.01)
        Temp | 1.19 (0.21) | 0.22 (0.00) | 0.13 (0.00) | 0.12 (0.00) | 0.21 (0.01) | 1.16 (0.09) | 0.11 (0.01)
        """,
    ),
    "nll": _rows(
        ENGINE_METHODS,
        """
        PN | 27.36 (6.92) | 14.78 (1.42) | 23.02 (1.19) | 22.45 (1.05) | 16.24 (1.45) | 26.74 (7.38) | 17.58 (1.00)
        HC | 13.97 (3.24) | 9.12 (0.92) | 20.56 (1.19) | 20.53 (1.98) | 9.92 (1.63) | 77.05 (36.37) | 11.49 (2.28)
        NOx| -13.17 (1.99)| -18.45 (1.01)| 16.51 (0.77)| 16.10 (0.68)| -13.78 (1.88)| 15.52 (15.16)| -14.30 (1.95)
        Temp | > 1000 | -2.37 (0.60) | -17.99 (0.53) | -13.64 (1.44) | -2.11 (1.14) | 352.99 (33.81) | -17.39 (7.15)
        """,
    ),
}
SENSITIVITY: Table = {  # table:sensitivity
    "rmse": _rows(
        SENSITIVITY_METHODS,
        """
        PN   | 0.41 (0.02) | 0.40 (0.03) | 0.41 (0.02) | 0.45 (0.02) | 0.40 (0.02) | 0.39 (0.02)
        HC   | 0.32 (0.02) | 0.29 (0.01) | 0.38 (0.03) | 0.40 (0.02) | 0.31 (0.02) | 0.32 (0.01)
        NOx  | 0.14 (0.01) | 0.15 (0.01) | 0.19 (0.01) | 0.33 (0.01) | 0.15 (0.01) | 0.17 (0.02)
        Temp | 0.11 (0.01) | 0.22 (0.03) | 0.10 (0.00) | 0.11 (0.00) | 0.10 (0.00) | 0.10 (0.00)
        """,
    ),
    "nll": _rows(
        SENSITIVITY_METHODS,
        """
        PN   | 17.58 (1.00)  | 20.34 (5.99)  | 17.83 (1.15)  | 20.77 (1.01)  | 16.65 (1.05)  | 16.00 (1.02)
        HC   | 11.49 (2.28)  | 10.00 (0.81)  | 16.90 (2.04)  | 18.99 (1.35)  | 12.99 (3.77)  | 13.02 (1.79)
        NOx  | -14.3 (1.95)  | -11.79 (1.84) | -5.91 (0.68)  | 9.72 (0.54)   | -11.76 (2.94) | 12.39 (22.55)
        Temp | -17.39 (7.15) | 3.67 (10.05)  | -21.94 (2.13) | -16.69 (0.82) | -26.37 (1.37) | -26.23 (0.76)
        """,
    ),
}
BATCH: Table = {  # table:batchsizeVSresolution
    "rmse": _rows(BATCH_METHODS, "S | 0.16(0.01) | 0.20(0.03) | 0.30(0.02) | 0.31(0.01) | 0.66(0.09) | 0.49(0.09)"),
    "nll": _rows(BATCH_METHODS, "S | 50.33(58.55) | 153.65(73.95) | 51.16(8.98) | 105.50(45.81) | >1000 | >1000"),
}
BATCH_SECONDS: dict[str, int] = dict(zip(BATCH_METHODS, (220, 585, 4958, 10486, 201, 665), strict=True))
BATCH_EXCLUDED: dict[str, int] = dict(zip(BATCH_METHODS, (0, 0, 1, 1, 2, 2), strict=True))
TABLES = {"semi-synthetic": SYNTHETIC, "engine": ENGINE, "sensitivity": SENSITIVITY, "batch-vs-resolution": BATCH}
LABELS = {
    "semi-synthetic": "table:synthetic, table:synthetic2",
    "engine": "table:emission, fig:engine",
    "grid": "figapp:gridsearch",
    "sensitivity": "table:sensitivity",
    "batch-vs-resolution": "table:batchsizeVSresolution",
    "complexity": "supplement D",
}
