"""What a running gateway or worker tells those who operate it: metrics, log lines, traces and the reasons of a probe.

``catalogue`` names every metric; whatever records one takes a ``Metrics`` and knows nothing of who reads it. Nothing
here holds what callers say: no sound, no words, no tokens, and no session id in a metric.
"""
