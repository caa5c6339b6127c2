"""Every kind of chunk a chat server sends, in parts."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.support.chat_server import audio_chunk, metadata, sound, text_chunk
from workers.models.chat.answering import Called, ChatRefused, Other, Part, Spoken, Used, Written, parts_of

pytestmark = pytest.mark.unit

PCM = sound(20)


async def parts(*chunks: Any, raw: str = "") -> list[Part]:
    async def lines() -> AsyncIterator[str]:
        yield ": a comment"
        for chunk in chunks:
            yield f"data: {json.dumps(chunk)}"
            yield ""
        for line in raw.splitlines():
            yield line

    return [part async for part in parts_of(lines())]


async def test_text_comes_piece_by_piece() -> None:
    assert await parts(text_chunk("Hel"), text_chunk("lo."), text_chunk("")) == [Written("Hel"), Written("lo.")]


@pytest.mark.parametrize("place", ["choice", "delta", "chunk"])
async def test_audio_of_an_omni_server_comes_with_its_metadata_wherever_it_is(place: str) -> None:
    said = metadata(PCM)
    chunk = audio_chunk(PCM, said if place == "choice" else None)
    if place == "delta":
        chunk["choices"][0]["delta"]["audio_metadata"] = said
    elif place == "chunk":
        chunk["audio_metadata"] = said
    (part,) = await parts(chunk)
    assert part == Spoken(chunk["choices"][0]["delta"]["content"], said)


async def test_audio_of_other_servers_comes_with_its_words() -> None:
    audio = {"id": "audio_1", "data": "AAAA", "transcript": "Hel"}
    delta = {"choices": [{"delta": {"audio": audio}}]}
    words = {"choices": [{"delta": {"audio": {"transcript": "lo."}}}]}
    ended = {"choices": [{"delta": {"audio": {"id": "audio_1", "expires_at": 1}}, "finish_reason": "stop"}]}
    assert await parts(delta, words, ended) == [Spoken("AAAA", None, "Hel"), Spoken("", None, "lo.")]


async def test_tool_calls_are_put_together_and_come_last() -> None:
    first = {"index": 0, "id": "call_1", "function": {"name": "get_weather", "arguments": '{"ci'}}
    second = {"index": 0, "function": {"arguments": 'ty": "Oslo"}'}}
    nameless = {"index": 1, "id": "call_2", "function": {"arguments": ""}}
    chunks = [{"choices": [{"delta": {"tool_calls": [call]}}]} for call in (first, second, nameless)]
    assert await parts(*chunks, text_chunk("One moment.")) == [
        Written("One moment."),
        Called("call_1", "get_weather", '{"city": "Oslo"}'),
        Called("call_2", None, "{}"),
    ]


async def test_usage_is_counted_and_what_is_no_choice_is_passed_on() -> None:
    usage = {"choices": [], "usage": {"prompt_tokens": 12, "completion_tokens": 5}}
    metrics = {"metrics": {"ttft_ms": 3}}
    assert await parts(usage, metrics) == [Used(12, 5), Other(metrics)]
    details = {"cached_tokens": 8, "audio_tokens": 0}
    cached = {"choices": [], "usage": {"prompt_tokens": 12, "completion_tokens": 5, "prompt_tokens_details": details}}
    assert await parts(cached) == [Used(12, 5, 8)]


async def test_an_answer_that_is_not_streamed_has_the_same_parts() -> None:
    message = {"role": "assistant", "content": "Hi.", "audio": {"data": "AAAA", "transcript": "Hi."}}
    body = {"choices": [{"message": message, "audio_metadata": {"format": "pcm"}}], "usage": {"prompt_tokens": 1}}
    assert await parts(raw=json.dumps(body, indent=1)) == [
        Used(1, None),
        Written("Hi."),
        Spoken("AAAA", {"format": "pcm"}, "Hi."),
    ]


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        ({"error": {"type": "resource_exhausted", "message": "full"}}, "resource_exhausted", "full"),
        ({"error": {"type": "BadRequestError", "message": "no"}}, "chat_error", "no"),
        ({"error": "broken"}, "chat_error", "broken"),
        ({"object": "error", "message": "old style", "type": "x"}, "chat_error", "old style"),
        ({"error": {"code": 500}}, "chat_error", "the chat server reported an error"),
        (text_chunk("x", modality="image"), "unsupported_response_modality", "the chat server answers in 'image'"),
    ],
)
async def test_an_error_ends_the_answer_with_its_code(error: dict[str, Any], code: str, message: str) -> None:
    with pytest.raises(ChatRefused) as refused:
        await parts(text_chunk("a"), error)
    assert (refused.value.code, str(refused.value)) == (code, message)


@pytest.mark.parametrize("raw", ["data: {broken", "data: 5", "data: []"])
async def test_what_is_no_chunk_is_an_error_of_its_own(raw: str) -> None:
    with pytest.raises(ValueError):
        await parts(raw=raw)


async def test_nothing_after_the_end_is_read() -> None:
    assert await parts(raw="data: [DONE]\ndata: {broken") == []
