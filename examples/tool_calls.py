"""Give the model a tool, answer its call, and hear what it makes of the result.

duplex-es up
python examples/tool_calls.py "What is the weather in Paris?"
"""

from __future__ import annotations

import argparse
import asyncio
import json

from duplex_es.client import DuplexClient, ResponseDone, SessionConfig

WEATHER = {
    "type": "function",
    "name": "get_weather",
    "description": "Current weather of a city",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}


def get_weather(city: str) -> str:
    """A weather service that is never wrong for long."""
    return f"24 degrees and clear in {city}"


async def main(args: argparse.Namespace) -> None:
    """Ask, run what the model calls, print what it says."""
    async with DuplexClient(args.url, model=args.model, config=SessionConfig(tools=[WEATHER])) as client:
        events = client.events()
        text = {"type": "input_text", "text": args.question}
        await add(client, {"type": "message", "role": "user", "content": [text]})
        has_called, said = False, ""
        async with asyncio.timeout(60):
            async for event in events:
                if event.type == "response.function_call_arguments.done":
                    arguments = json.loads(event.raw["arguments"])
                    print(f"the model calls get_weather({arguments})")
                    output = get_weather(**arguments)
                    await add(
                        client, {"type": "function_call_output", "call_id": event.raw["call_id"], "output": output}
                    )
                    has_called, said = True, ""
                elif event.type == "response.output_audio_transcript.delta":
                    said += event.text
                elif isinstance(event, ResponseDone) and has_called and said:
                    break
        print(f"it says: {said.strip()}")


async def add(client: DuplexClient, item: dict[str, object]) -> None:
    """Put an item into the conversation and ask for a response."""
    await client.send({"type": "conversation.item.create", "item": item})
    await client.send({"type": "response.create"})


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("question", nargs="?", default="What is the weather in Paris?")
    parser.add_argument("--url", default="ws://127.0.0.1:8099")
    parser.add_argument("--model", default="cascade")
    asyncio.run(main(parser.parse_args()))
