"""Asks with the client of `claude-agent-sdk`, which is kept connected. A child of `bench.peers`, not a command.

    python sdk_client.py CLAUDE_BINARY MODEL

Each line of stdin is a prompt, as a JSON text. For each, a line on stdout says what was answered and how long it took,
measured here: a program that uses the client waits for nothing else.
"""

import asyncio
import json
import sys
import time

from claude_agent_sdk import ClaudeAgentOptions, ClaudeSDKClient, StreamEvent


async def main(binary: str, model: str) -> None:
    options = ClaudeAgentOptions(
        cli_path=binary,
        model=model,
        system_prompt={"type": "preset", "preset": "claude_code"},
        setting_sources=["user"],
        include_partial_messages=True,
    )
    async with ClaudeSDKClient(options) as client:
        while line := await asyncio.to_thread(sys.stdin.readline):
            print(json.dumps(await _asked(client, json.loads(line))), flush=True)


async def _asked(client: ClaudeSDKClient, prompt: str) -> dict[str, object]:
    first_text, text = 0.0, ""
    began = time.perf_counter()
    await client.query(prompt)
    async for message in client.receive_response():  # it ends with the turn's result
        delta = message.event.get("delta", {}) if isinstance(message, StreamEvent) else {}
        if delta.get("type") == "text_delta":
            first_text = first_text or time.perf_counter()
            text += delta["text"]
    return {"first_text_s": first_text - began, "all_s": time.perf_counter() - began, "text": text}


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
