"""A run whose one sample has everything: sound, tools, a trajectory, thinking, log probabilities, a verdict."""

import math
import struct
import wave
from pathlib import Path
from typing import Any

SECONDS, RATE = 0.5, 8000
THINKING = "The tone lasts long."
VERDICT = "Right, but short. Rating: [[8]]"

_MODEL = f'''
import math


class Model:
    def generate(self, request):
        likely = [{{"token": "six", "logprob": math.log(0.4)}}]
        content = [
            {{"token": text, "logprob": math.log(share), "top_logprobs": likely}}
            for text, share in (("It ", 0.99), ("is ", 0.7), ("5", 0.05))
        ]
        call = {{"id": "call-1", "type": "function", "function": {{"name": "listen", "arguments": '{{"seconds": 5}}'}}}}
        return {{
            "answer": "It is 5", "reasoning": "{THINKING}", "tool_calls": [call], "logprobs": {{"content": content}}
        }}
'''


def rich_row(folder: Path) -> dict[str, Any]:
    """The sample; its sound and its model are written to the folder."""
    with wave.open(str(folder / "tone.wav"), "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(2)
        sound.setframerate(RATE)
        heights = (int(9000 * math.sin(i / 5)) for i in range(int(SECONDS * RATE)))
        sound.writeframes(b"".join(struct.pack("<h", height) for height in heights))
    (folder / "rich_model.py").write_text(_MODEL, encoding="utf-8")
    content = [
        {"type": "text", "text": "How long after 0.25 s?"},
        {"type": "audio_url", "audio_url": {"url": "tone.wav"}},
    ]
    measure = {"id": "call-1", "type": "function", "function": {"name": "measure", "arguments": "{}"}}
    listen = {"name": "listen", "parameters": {"type": "object", "properties": {"seconds": {"type": "number"}}}}
    steps = [
        {"role": "assistant", "content": None, "tool_calls": [measure]},
        {"role": "tool", "tool_call_id": "call-1", "content": "half a second"},
    ]
    return {
        "id": "tone",
        "messages": [{"role": "user", "content": content}],
        "label": "6",
        "tools": [{"type": "function", "function": listen}],
        "golden_trajectories": [steps],
    }


RICH: dict[str, Any] = {
    "backends": [
        {
            "backend_id": "model",
            "type": "custom_script",
            "config": {"file_path": "rich_model.py", "class_name": "Model"},
        },
        {"backend_id": "strong", "type": "dummy", "config": {"answer": VERDICT}},
    ],
    "role_adapters": [
        {"adapter_id": "dut", "role_type": "dut_model", "backend_id": "model"},
        {"adapter_id": "judge", "role_type": "judge_model", "backend_id": "strong", "prompt_id": "rate"},
    ],
    "prompts": [{"prompt_id": "rate", "template": "Rate this answer: {{ model_answer }}"}],
    "metrics": ["numeric_match", "judge_rating"],
    "params": {"content_root": "."},
}
"""Of its config: everything but the dataset."""
