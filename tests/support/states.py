"""One short name for a whole session state, to compare two of them."""

from __future__ import annotations

import functools
import json
from hashlib import blake2b
from typing import Any

import msgspec

from duplex_es.session.state import Session


def plain(value: Any) -> Any:
    """``value`` as JSON can say it, fields at their default left out: a field that is added later changes no digest.

    Compares with defaults by value; the packer leaves out only what is the very same object.
    """
    if isinstance(value, msgspec.Struct):
        said = ((name, getattr(value, field), default) for name, field, default in _fields(type(value)))
        return {name: plain(what) for name, what, default in said if what != default}
    if isinstance(value, dict):
        return {str(key): plain(what) for key, what in value.items()}
    if isinstance(value, list | tuple):
        return [plain(what) for what in value]
    return str(value) if value is msgspec.UNSET else value


@functools.cache
def _fields(kind: type[msgspec.Struct]) -> list[tuple[str, str, Any]]:
    """Each field's stored name, its name, and its default. Asking a struct for them takes longer than all the rest."""
    return [(field.encode_name, field.name, _default(field)) for field in msgspec.structs.fields(kind)]


def _default(field: msgspec.structs.FieldInfo) -> Any:
    if field.default is not msgspec.NODEFAULT:
        return field.default
    return field.default_factory() if callable(field.default_factory) else msgspec.NODEFAULT


def digest_of(session: Session) -> str:
    """32 hex digits that differ when anything in the state does."""
    text = json.dumps(plain(session), sort_keys=True, default=bytes.hex)
    return blake2b(text.encode(), digest_size=16).hexdigest()
