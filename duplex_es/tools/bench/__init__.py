"""``duplex-es bench``: many callers in real time against any server of the API, and what they experienced.

``plan`` says who calls, ``caller`` is one of them, ``takes`` is what one answer looked like from outside, ``report``
sums up, ``command`` and ``plot`` show it.
"""
