"""One short name for a whole session state, to compare two of them."""

from __future__ import annotations

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
        fields = msgspec.structs.fields(value)
        said = {field.encode_name: getattr(value, field.name) for field in fields}
        standing = {f.encode_name: _default(f) for f in fields}
        return {name: plain(what) for name, what in said.items() if what != standing[name]}
    if isinstance(value, dict):
        return {str(key): plain(what) for key, what in value.items()}
    if isinstance(value, list | tuple):
        return [plain(what) for what in value]
    return str(value) if value is msgspec.UNSET else value


def _default(field: msgspec.structs.FieldInfo) -> Any:
    if field.default is not msgspec.NODEFAULT:
        return field.default
    return field.default_factory() if callable(field.default_factory) else msgspec.NODEFAULT


def digest_of(session: Session) -> str:
    """32 hex digits that differ when anything in the state does."""
    text = json.dumps(plain(session), sort_keys=True, default=bytes.hex)
    return blake2b(text.encode(), digest_size=16).hexdigest()
