"""The catalogue of the API: every event in one row, with its one-sentence rule.

The reference page and its tests read it. The long rules stand on the page, ``docs/reference/realtime-api.md``; what the
fields are is said by the structs of ``commands`` and ``frames``.
"""

from __future__ import annotations

from typing import Literal

import msgspec

Direction = Literal["client", "server"]

SESSION = "Session lifecycle"
INPUT = "Input"
ITEMS = "Conversation items"
RESPONSE = "Response lifecycle"
FUNCTIONS = "Function calls"
INTERRUPT = "Interrupt"
PLAYBACK = "Playback"
OVERLAP = "Overlap and barge-in"
DIAGNOSTICS = "Errors and diagnostics"

SECTIONS = (SESSION, INPUT, ITEMS, RESPONSE, FUNCTIONS, INTERRUPT, PLAYBACK, OVERLAP, DIAGNOSTICS)
"""The parts of the page, in its order."""


class Event(msgspec.Struct, frozen=True):
    """One event: its wire name, the part of the page it belongs to, its tier, and its rule in one sentence.

    ``direction`` says who says it. ``tier``: 1 is plain OpenAI Realtime, 2 an OpenAI name with more fields, 3 a name
    OpenAI does not have. ``extension``: it is not in the published catalogue.
    """

    name: str
    direction: Direction
    section: str
    tier: int
    rule: str
    extension: bool = False


_SAYS = [
    Event(
        "session.update",
        "client",
        SESSION,
        2,
        "Opens the session when it is the first event, else changes settings: all or none.",
    ),
    Event("session.heartbeat", "client", SESSION, 3, "Shows that the client is there, and asks for an answer."),
    Event(
        "session.event_ack",
        "client",
        SESSION,
        3,
        "Says which frames need not be kept for a replay any more; answered only when wrong.",
    ),
    Event("session.close", "client", SESSION, 3, "Ends the session for good, the only clean end there is."),
    Event(
        "session.resume",
        "client",
        SESSION,
        3,
        "Takes a live session up on a new socket and asks for every frame after a position.",
    ),
    Event(
        "input_audio_buffer.append",
        "client",
        INPUT,
        2,
        "Brings the next piece of caller audio, with hints about what it holds.",
    ),
    Event(
        "input_audio_buffer.commit",
        "client",
        INPUT,
        2,
        "Seals the buffered utterance into a user item, or declares it silence.",
    ),
    Event(
        "input.commit",
        "client",
        INPUT,
        3,
        "Commits as well, but asks for a response by itself and takes an empty buffer.",
    ),
    Event("input_audio_buffer.clear", "client", INPUT, 1, "Drops the audio that no item holds yet, and nothing else."),
    Event("input.cancel", "client", INPUT, 3, "Drops pending input, cancels the active response and moves the epoch."),
    Event("input.text.append", "client", INPUT, 3, "Adds typed text to the open input item of a turn-based model."),
    Event(
        "conversation.item.create",
        "client",
        ITEMS,
        1,
        "Puts a finished item into the conversation; never starts a response by itself.",
    ),
    Event("conversation.item.retrieve", "client", ITEMS, 1, "Asks for an item as it stands."),
    Event("conversation.item.delete", "client", ITEMS, 1, "Takes an item out of the conversation."),
    Event("conversation.item.truncate", "client", ITEMS, 1, "Cuts an answer to what was heard of it; never undone."),
    Event("response.create", "client", RESPONSE, 1, "Asks for one response now, with settings of its own if need be."),
    Event("response.cancel", "client", INTERRUPT, 1, "Stops the active or the named response and moves the epoch."),
    Event(
        "output_audio_buffer.clear",
        "client",
        INTERRUPT,
        1,
        "Discards output that was not heard, with the response it belongs to.",
    ),
    Event("barge_in", "client", INTERRUPT, 3, "Interrupts hard, on models that can be interrupted."),
    Event("turn.signal", "client", INTERRUPT, 3, "Tells of turn taking that was decided elsewhere."),
    Event(
        "playback.ack",
        "client",
        PLAYBACK,
        3,
        "Reports how much of an answer was played, and what of it counts as heard.",
    ),
]

_HEARS = [
    Event(
        "session.created", "server", SESSION, 2, "The session is open: its settings and state, and what a resume needs."
    ),
    Event(
        "session.updated",
        "server",
        SESSION,
        2,
        "The settings that hold from now on, whole; follows every accepted update.",
    ),
    Event("session.heartbeat_ack", "server", SESSION, 3, "Answers a heartbeat."),
    Event("session.closed", "server", SESSION, 3, "The session is over; the last frame of the socket."),
    Event("session.resumed", "server", SESSION, 3, "This socket holds the session now; what it missed follows."),
    Event("session.replaced", "server", SESSION, 3, "Another socket took the session over; this one is closed."),
    Event(
        "session.expired", "server", SESSION, 3, "The session was given up because nobody was there; the socket closes."
    ),
    Event(
        "session.resync_required",
        "server",
        SESSION,
        3,
        "The frames asked for are not all there; a new session is needed.",
    ),
    Event("input_audio_buffer.speech_started", "server", INPUT, 1, "The caller began to speak."),
    Event("input_audio_buffer.speech_stopped", "server", INPUT, 1, "The caller stopped."),
    Event(
        "input_audio_buffer.committed", "server", INPUT, 2, "A commit was taken; the detail of it stands under event."
    ),
    Event("input_audio_buffer.cleared", "server", INPUT, 1, "Pending input is gone."),
    Event("conversation.item.added", "server", ITEMS, 2, "An item entered the conversation."),
    Event("conversation.item.created", "server", ITEMS, 2, "The same under the older name, right after it."),
    Event("conversation.item.done", "server", ITEMS, 2, "An item is final."),
    Event(
        "conversation.item.input_audio_transcription.completed", "server", ITEMS, 1, "What the caller said in an item."
    ),
    Event("conversation.item.deleted", "server", ITEMS, 2, "An item is gone."),
    Event("conversation.item.retrieved", "server", ITEMS, 1, "An item as it stands."),
    Event(
        "conversation.item.truncated", "server", ITEMS, 2, "An answer was cut; how much of it counts as heard follows."
    ),
    Event("response.created", "server", RESPONSE, 2, "A response begins; the first of its frames."),
    Event(
        "response.output_item.added",
        "server",
        RESPONSE,
        1,
        "The response has an item: its message, or a function call.",
    ),
    Event("response.content_part.added", "server", RESPONSE, 1, "A part of the message opens: audio or text."),
    Event("response.speak", "server", RESPONSE, 3, "The model chose to speak; comes before the first audio."),
    Event(
        "response.output_audio.delta",
        "server",
        RESPONSE,
        2,
        "The next piece of speech, with how far the answer has come.",
    ),
    Event(
        "response.output_audio_transcript.delta",
        "server",
        RESPONSE,
        1,
        "The words that begin in the audio delta before it.",
    ),
    Event("response.output_text.delta", "server", RESPONSE, 1, "The next piece of written text."),
    Event("response.output_text.done", "server", RESPONSE, 1, "The written text, whole."),
    Event("response.output_audio.done", "server", RESPONSE, 1, "No more audio comes in this response."),
    Event(
        "response.output_audio_transcript.done",
        "server",
        RESPONSE,
        1,
        "The spoken words, whole: exactly the deltas joined.",
    ),
    Event("response.content_part.done", "server", RESPONSE, 1, "A part of the message is final."),
    Event("response.output_item.done", "server", RESPONSE, 1, "The item of the response is final."),
    Event("response.done", "server", RESPONSE, 2, "The response is over: completed, cancelled or failed."),
    Event("rate_limits.updated", "server", RESPONSE, 1, "Follows every end of a response, always empty."),
    Event(
        "response.listen",
        "server",
        RESPONSE,
        3,
        "The model keeps listening, or ends an announced response without output.",
    ),
    Event(
        "response.function_call_arguments.delta", "server", FUNCTIONS, 1, "A piece of the arguments of a function call."
    ),
    Event("response.function_call_arguments.done", "server", FUNCTIONS, 1, "The arguments of a function call, whole."),
    Event(
        "duplex.function_call.done",
        "server",
        FUNCTIONS,
        3,
        "A function call that cannot be addressed, as the model made it.",
    ),
    Event("output_audio_buffer.cleared", "server", INTERRUPT, 1, "Output that was not heard is discarded."),
    Event(
        "playback.acknowledged",
        "server",
        PLAYBACK,
        3,
        "A playback report was taken: the ledger after it, and whether the history moved.",
    ),
    Event(
        "overlap.decision", "server", OVERLAP, 3, "What is done with audio that came while an answer was being given."
    ),
    Event("runtime.control", "server", DIAGNOSTICS, 3, "A control signal was carried out only in part."),
    Event("error", "server", DIAGNOSTICS, 2, "Something was refused or failed."),
]

_MORE = [
    Event("duplex.turn.event", "server", INTERRUPT, 3, "A turn signal that is no cancel was noted.", True),
    Event(
        "response.message", "server", RESPONSE, 3, "Something a chat model sent that has no place in a response.", True
    ),
    Event(
        "session.going_away",
        "server",
        SESSION,
        3,
        "This gateway will close the socket soon; the session goes on elsewhere.",
        True,
    ),
    Event(
        "session.durable",
        "server",
        SESSION,
        3,
        "No frame up to this seq is lost with one node of the store; for clients that ask.",
        True,
    ),
    Event(
        "conversation.item.input_audio_transcription.delta",
        "server",
        ITEMS,
        1,
        "The next words of a transcript that is still to come.",
        True,
    ),
    Event(
        "conversation.item.input_audio_transcription.failed",
        "server",
        ITEMS,
        1,
        "What the caller said in an item could not be made out.",
        True,
    ),
]

CATALOGUE: dict[str, Event] = {event.name: event for event in (*_SAYS, *_HEARS, *_MORE)}
"""Wire name → row: the 21 events a client says, the 42 a client hears, then this service's own."""
