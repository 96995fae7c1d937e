"""Statistics of simulation errors, behind the report. Arrays in, arrays out, NumPy only.

A recording may come in pieces (sequences). NaN marks values that were not measured; they are ignored.
"""
