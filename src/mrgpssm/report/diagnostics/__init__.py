"""What a simulation's errors say: statistics behind the report. Arrays in, arrays out, nothing but NumPy.

A recording may come in pieces (sequences); NaN marks what was not measured and counts nowhere.
"""
