class GRU:
    pass
