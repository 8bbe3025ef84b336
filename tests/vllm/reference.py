"""What a plain forward pass of transformers gives: the truth that engines are compared with.

Run by the interpreter that has torch: reads ``{"model", "dtype", "pairs": [[context, continuation], …], "in_chat":
[[messages, continuation], …], "chats": [text, …]}`` from standard input and writes ``{"ll": [[log probability of each
token, …], …], "answers": [text, …]}``, the likelihoods of pairs before those in chats.
Written without the package's code, as the comparison would otherwise compare it with itself.
"""

import json
import sys
from typing import Any


def main() -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    request: dict[str, Any] = json.load(sys.stdin)
    # Threads that wait for each other are slower than one wherever anything else runs.
    torch.set_num_threads(1)
    tokenizer = AutoTokenizer.from_pretrained(request["model"])
    model = AutoModelForCausalLM.from_pretrained(request["model"], dtype=getattr(torch, request["dtype"]))
    model.eval()
    pairs = list(request["pairs"])
    for messages, continuation in request["in_chat"]:
        begun = messages[-1]["role"] == "assistant"
        shown = messages[:-1] if begun else messages
        text = tokenizer.apply_chat_template(shown, add_generation_prompt=True, tokenize=False)
        pairs.append([text + messages[-1]["content"] if begun else text, continuation])
    sums = []
    answers = []
    with torch.inference_mode():
        for context, continuation in pairs:
            moved = context[len(context.rstrip()) :] + continuation
            before = tokenizer.encode(context.rstrip(), add_special_tokens=False)
            whole = tokenizer.encode(context.rstrip() + moved, add_special_tokens=False)
            if not before:
                before, whole = [tokenizer.bos_token_id], [tokenizer.bos_token_id, *whole]
            logits = model(torch.tensor([whole])).logits[0].float()
            each = torch.log_softmax(logits, dim=-1)
            sums.append([float(each[i - 1, whole[i]]) for i in range(len(before), len(whole))])
        for text in request["chats"]:
            chat = [{"role": "user", "content": text}]
            prompt = tokenizer.apply_chat_template(chat, add_generation_prompt=True, tokenize=False)
            tokens = tokenizer(prompt, add_special_tokens=False, return_tensors="pt")
            made = model.generate(**tokens, do_sample=False, max_new_tokens=16, pad_token_id=2)
            answers.append(tokenizer.decode(made[0, tokens["input_ids"].shape[1] :], skip_special_tokens=True))
    json.dump({"ll": sums, "answers": answers}, sys.stdout)


if __name__ == "__main__":
    main()
