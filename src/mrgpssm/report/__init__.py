"""What people look at: a run's evidence, charts made of it, and two ways to draw them.

`gather` collects the evidence (the only place that simulates), `charts` turn it into marks on panels, `figures` draws
panels for print (matplotlib) and `html` as one page to open, mail and archive (jinja2 and plotly, extra `report`).
"""
