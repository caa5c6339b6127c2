"""A written conversation over the same API: no sound either way.

duplex-es up
python examples/text_only.py "What is 7 times 6?" "And who are you?"
"""

from __future__ import annotations

import argparse

from duplex_es.client import SessionConfig, SyncDuplexClient, TextDelta


def main(args: argparse.Namespace) -> None:
    """One answer after the other, printed as it comes."""
    with SyncDuplexClient(args.url, model=args.model, config=SessionConfig(modalities=["text"])) as client:
        events = client.events()
        for question in args.questions:
            text = {"type": "input_text", "text": question}
            item = {"type": "message", "role": "user", "content": [text]}
            client.send({"type": "conversation.item.create", "item": item})
            client.send({"type": "response.create"})
            print(f"> {question}\n< ", end="")
            for event in events:
                if isinstance(event, TextDelta):
                    print(event.text, end="", flush=True)
                if event.type == "response.done":
                    break
            print()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("questions", nargs="+")
    parser.add_argument("--url", default="ws://127.0.0.1:8099")
    parser.add_argument("--model", default="cascade")
    main(parser.parse_args())
