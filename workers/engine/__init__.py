"""Models that step many sessions at once, each in a process and an interpreter of its own.

A worker's process has sockets, JSON and the log to attend to; one busy thread beside a model that must be done every
80 ms doubles its time. So the model runs elsewhere: ``contract`` is what it offers, ``child`` the loop around it,
``ticker`` decides when which sessions step, ``wire`` is how both sides talk, ``process`` the worker's side. ``units``
and ``turns`` are what models offer that work in units of a second, or are asked turn by turn; each has a loop and a
queue of its own. All but ``process`` need the standard library and numpy only: a model may bring whatever interpreter
and packages it needs.

What an engine's process would take long to do again may outlive it: ``holding`` is its line to memory that
``holding_process`` owns, ``standby`` is one more process that waits, and ``starting`` decides what the next one gets.
An engine that can make use of it has ``hold(Holding)``, called first of all, ``prepare()``, called before ``load``
while another process may be at work on the device, and ``place(opening, free)``, which picks the slot of an opening.
"""
