"""MiniCPM-o 4.5 in the authors' own interpreter: their duplex objects as one unit engine.

Nothing here is imported by a worker. It needs numpy, ``workers.engine``, and in earnest the authors' packages as
``deploy/models/minicpmo/requirements.txt`` pins them; with ``fake=yes`` nothing more than numpy.
"""
