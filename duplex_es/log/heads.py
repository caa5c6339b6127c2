"""From script replies to what callers know: heads and standings."""

from __future__ import annotations

from .api import EntryId, Head, SessionRef
from .connections import Reply
from .follower import Standing


def head_from(session_id: str, reply: Reply) -> Head:
    """The ``Head`` in the fields that ``head_of`` of the prelude lists."""
    incarnation, model, state, generation, attached, gateway, fence, worker = reply[:8]
    last_seq, last_input, first_seq, acknowledged, opening, checkpoint = reply[8:]
    return Head(
        ref=SessionRef(session_id, int(incarnation)),
        model=model.decode(),
        state=state.decode(),
        generation=int(generation),
        attached=bool(attached),
        gateway=gateway.decode(),
        fence=int(fence),
        worker=worker.decode(),
        output=EntryId(int(fence), int(last_seq)),
        input=EntryId.parse(last_input),
        first_seq=int(first_seq),
        acknowledged_seq=int(acknowledged),
        opening=opening,
        checkpoint=checkpoint,
    )


def is_listed(digest: bytes, unconfirmed: bytes) -> bool:
    """Whether a head's list of digests, each after its length and ``:``, holds this one."""
    return b"%d:%b" % (len(digest), digest) in unconfirmed


def standing_from(look: Reply, *, output: bool) -> Standing:
    """The ``Standing`` in the reply of ``look.lua``, for a follower of ``output`` or of ``input``."""
    state, attachment, fence, _last_input, _last_seq, first_seq, read_after, reason, opening, claim = look[:10]
    return Standing(
        state=state.decode(),
        generation=fence if output else attachment,
        attachment=attachment,
        first_seq=first_seq,
        read_after=EntryId.parse(read_after),
        reason=reason.decode(),
        opening=opening,
        written_under=claim,
    )
