"""A chat server as the mind: what is asked, and what is made of what comes back."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from workers.models.cascade.dialogue.chat import ChatFailed, ChatServer
from workers.models.cascade.dialogue.scene import Call, Counted, Line, Part, Say, Scene, Tool

pytestmark = pytest.mark.unit

SCENE = Scene(
    "And now?",
    [
        Line("user", "Weather?"),
        Line("assistant", '{"city": "Paris"}', call_id="c1", name="get_weather"),
        Line("tool", "sunny", call_id="c1"),
        Line("assistant", "It is sunny."),
    ],
    instructions="Be kind.",
    tools=[Tool("get_weather", "The weather.", {"type": "object"})],
    temperature=0.5,
    max_tokens=40,
)


class Server:
    """Answers with a prepared response and keeps the request."""

    def __init__(self, response: httpx.Response | Exception) -> None:
        self.response = response
        self.request: httpx.Request | None = None

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.request = request
        if isinstance(self.response, Exception):
            raise self.response
        return self.response

    @property
    def body(self) -> dict[str, Any]:
        assert self.request is not None
        return json.loads(self.request.content)


def stream(*deltas: dict[str, Any], done: bool = True) -> httpx.Response:
    events = [f"data: {json.dumps({'choices': [{'delta': delta}]})}\n\n" for delta in deltas]
    return httpx.Response(200, text="".join([": ping\n\n", *events, "data: [DONE]\n\n" if done else ""]))


async def ask(server: Server, url: str = "http://chat/v1") -> list[Part]:
    chat = ChatServer(url, "some-model", "secret", httpx.MockTransport(server))
    try:
        return [part async for part in chat.reply(SCENE)]
    finally:
        await chat.close()


async def test_sentences_come_as_soon_as_they_are_whole() -> None:
    server = Server(
        stream({"role": "assistant"}, {"content": "It is"}, {"content": " late. Good"}, {"content": " night"})
    )
    assert await ask(server) == [Say("It is late. "), Say("Good night")]


async def test_the_server_is_shown_the_whole_conversation() -> None:
    server = Server(stream({"content": "Hm."}))
    await ask(server)
    body = server.body
    assert server.request is not None
    assert str(server.request.url) == "http://chat/v1/chat/completions"
    assert server.request.headers["authorization"] == "Bearer secret"
    assert (body["model"], body["stream"], body["temperature"], body["max_tokens"]) == ("some-model", True, 0.5, 40)
    assert [message["role"] for message in body["messages"]] == [
        "system",
        "user",
        "assistant",
        "tool",
        "assistant",
        "user",
    ]
    assert body["messages"][0]["content"].startswith("Be kind. ")
    assert body["messages"][2]["tool_calls"][0]["function"] == {"name": "get_weather", "arguments": '{"city": "Paris"}'}
    assert body["messages"][3] == {"role": "tool", "tool_call_id": "c1", "content": "sunny"}
    assert body["messages"][-1] == {"role": "user", "content": "And now?"}
    assert body["tools"][0]["function"]["name"] == "get_weather"


async def test_a_full_address_is_taken_as_it_is() -> None:
    server = Server(stream({"content": "Hm."}))
    await ask(server, "http://chat/api/chat/completions")
    assert server.request is not None and server.request.url.path == "/api/chat/completions"


async def test_tool_calls_are_put_together_and_follow_the_words() -> None:
    first = {"index": 0, "function": {"name": "get_weather", "arguments": '{"ci'}}
    second = {"index": 0, "function": {"arguments": 'ty": "Oslo"}'}}
    nameless = {"index": 1, "function": {"arguments": "{}"}}
    server = Server(stream({"tool_calls": [first]}, {"tool_calls": [second, nameless], "content": "One moment."}))
    assert await ask(server) == [Say("One moment."), Call("get_weather", '{"city": "Oslo"}')]


async def test_a_server_that_does_not_stream_is_understood() -> None:
    body = {"choices": [{"message": {"role": "assistant", "content": "Hello. Again."}}]}
    assert await ask(Server(httpx.Response(200, json=body))) == [Say("Hello. "), Say("Again.")]


@pytest.mark.parametrize(
    "response",
    [
        httpx.Response(503, text="busy"),
        httpx.ConnectError("nobody there"),
        httpx.Response(200, text="data: {broken\n\n"),
    ],
)
async def test_no_answer_is_a_failure(response: httpx.Response | Exception) -> None:
    with pytest.raises(ChatFailed):
        await ask(Server(response))


async def test_an_answer_that_breaks_off_keeps_what_was_said() -> None:
    broken = stream({"content": "First. Sec"}, done=False)
    broken = httpx.Response(200, text=broken.text + "data: {broken\n\n")
    assert await ask(Server(broken)) == [Say("First. "), Say("Sec")]


@pytest.mark.parametrize(
    ("usage", "told"),
    [
        ({"prompt_tokens": 40, "completion_tokens": 9}, [Counted(40, 9)]),
        ({"prompt_tokens": None}, [Counted(0, 0)]),
        (None, []),
        ("many", []),
    ],
)
async def test_the_tokens_are_told_last_if_the_server_counts_them(usage: object, told: list[Part]) -> None:
    chunks = [{"choices": [{"delta": {"content": "Yes."}}]}, {"choices": [], "usage": usage}]
    text = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks)
    server = Server(httpx.Response(200, text=text))
    assert await ask(server) == [Say("Yes."), *told]
    assert server.body["stream_options"] == {"include_usage": True}
