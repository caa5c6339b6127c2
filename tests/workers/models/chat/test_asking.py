"""A turn in the words of a chat request."""

from __future__ import annotations

from base64 import b64decode
from typing import Any

import pytest

from duplex_es.model import HistoryItem
from duplex_es.protocol import read_wav
from workers.models.chat.asking import Wish, request_body

pytestmark = pytest.mark.unit

PCM = b"\1\0" * 1_600


def item(role: str, text: str, **fields: Any) -> HistoryItem:
    return HistoryItem(item_id=fields.pop("item_id", "item"), role=role, text=text, **fields)


def body(*history: HistoryItem, wish: Wish | None = None, audio_part: str = "input_audio") -> dict[str, Any]:
    return request_body("omni", history, {"item_spoken": PCM}, wish or Wish(), audio_part=audio_part)


def test_a_conversation_is_told_in_order_with_what_was_called_and_answered() -> None:
    made = body(
        item("system", "Be brief."),
        item("user", "How is the weather?"),
        item("assistant", '{"city": "Oslo"}', call_id="call_1", name="get_weather"),
        item("tool", "rain", call_id="call_1"),
        item("assistant", "It rains."),
        wish=Wish(instructions="You are kind."),
    )
    assert made["messages"] == [
        {"role": "system", "content": "You are kind."},
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "How is the weather?"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {
                    "id": "call_1",
                    "type": "function",
                    "function": {"name": "get_weather", "arguments": '{"city": "Oslo"}'},
                }
            ],
        },
        {"role": "tool", "tool_call_id": "call_1", "content": "rain"},
        {"role": "assistant", "content": "It rains."},
    ]


def test_a_spoken_turn_goes_as_it_was_said() -> None:
    (message,) = body(item("user", "", item_id="item_spoken", spoken=True))["messages"]
    (part,) = message["content"]
    assert part["type"] == "input_audio"
    assert part["input_audio"]["format"] == "wav"
    found, channels, pcm = read_wav(b64decode(part["input_audio"]["data"]))
    assert (found.sample_rate_hz, channels, pcm) == (16_000, 1, PCM)


def test_a_server_may_want_speech_as_an_address() -> None:
    (message,) = body(item("user", "hi", item_id="item_spoken"), audio_part="audio_url")["messages"]
    part, text = message["content"]
    assert part["audio_url"]["url"].startswith("data:audio/wav;base64,UklGR")
    assert text == {"type": "text", "text": "hi"}


def test_a_spoken_turn_that_nobody_kept_is_left_out() -> None:
    assert body(item("user", "", item_id="item_lost", spoken=True))["messages"] == []


def test_what_is_not_said_is_left_to_the_server() -> None:
    assert body() == {
        "model": "omni",
        "stream": True,
        "stream_options": {"include_usage": True},
        "modalities": ["text", "audio"],
        "audio": {"format": "pcm16"},
        "messages": [],
    }


def test_settings_and_what_else_the_client_wants_are_passed_on() -> None:
    flat: dict[str, object] = {"type": "function", "name": "get_time", "parameters": {"type": "object"}}
    nested: dict[str, object] = {"type": "function", "function": {"name": "get_date"}}
    made = body(
        wish=Wish(
            modalities=("text",),
            voice="chelsie",
            temperature=0.5,
            max_tokens=7,
            tools=(flat, nested),
            extra_body={"top_p": 0.9, "auto_response": True, "overlap_policy": "x", "messages": [], "stream": False},
        )
    )
    assert made["modalities"] == ["text"]
    assert "audio" not in made
    assert (made["temperature"], made["max_tokens"], made["top_p"]) == (0.5, 7, 0.9)
    assert made["tools"] == [
        {"type": "function", "function": {"name": "get_time", "parameters": {"type": "object"}}},
        nested,
    ]
    assert made["stream"] is True
    assert made["messages"] == []
    assert not {"auto_response", "overlap_policy"} & set(made)
    chosen = body(wish=Wish(tools=(flat,), tool_choice={"type": "function", "name": "get_time"}))
    assert chosen["tool_choice"] == {"type": "function", "function": {"name": "get_time"}}
    assert body(wish=Wish(tools=(flat,), tool_choice="required"))["tool_choice"] == "required"
    assert "tool_choice" not in body(wish=Wish(tool_choice="required")), "there is nothing to choose from"
    assert body(wish=Wish(voice="chelsie"))["audio"] == {"voice": "chelsie", "format": "pcm16"}
