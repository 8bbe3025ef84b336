"""A tiny Llama with random weights and eight heads: ``python tests/gpu/tiny_llama.py TOKENIZER FOLDER``."""

import sys


def main() -> None:
    import torch
    from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

    tokenizer = AutoTokenizer.from_pretrained(sys.argv[1])
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=256,
        intermediate_size=512,
        num_hidden_layers=2,
        num_attention_heads=8,
        num_key_value_heads=4,
        max_position_embeddings=2048,
    )
    LlamaForCausalLM(config).save_pretrained(sys.argv[2])
    tokenizer.save_pretrained(sys.argv[2])


if __name__ == "__main__":
    main()
