"""A text model whose places are learned, tiny and random: GPT-Neo, saved as a checkpoint.

Run by the interpreter that has torch: ``python tests/vllm/tiny_neo.py TEXT_MODEL FOLDER``; the tokenizer is the text
model's. A row that is padded and not told where it begins gets other probabilities from it.
"""

import sys


def main() -> None:
    import torch
    from transformers import AutoTokenizer, GPTNeoConfig, GPTNeoForCausalLM

    torch.manual_seed(0)
    source, target = sys.argv[1:]
    tokenizer = AutoTokenizer.from_pretrained(source)
    config = GPTNeoConfig(
        vocab_size=len(tokenizer), hidden_size=16, num_layers=2, num_heads=2, attention_types=[[["global"], 2]],
        max_position_embeddings=1024, initializer_range=0.3, bos_token_id=1, eos_token_id=2,
    )  # fmt: skip
    GPTNeoForCausalLM(config).save_pretrained(target)
    tokenizer.save_pretrained(target)


if __name__ == "__main__":
    main()
