"""A model that sees, tiny and random: Llava with a few hundred weights, saved as a checkpoint.

Run by the interpreter that has torch: ``python tests/vllm/tiny_vlm.py TEXT_MODEL FOLDER``; the tokenizer is the text
model's. What it says is noise; that it says the same each time, and takes as many images as it is given, is not.
"""

import sys
from pathlib import Path


def main() -> None:
    import torch
    from tokenizers.processors import TemplateProcessing
    from transformers import (
        AutoTokenizer,
        CLIPImageProcessorPil,
        CLIPVisionConfig,
        LlamaConfig,
        LlavaConfig,
        LlavaForConditionalGeneration,
        LlavaProcessor,
    )

    torch.manual_seed(0)
    source, target = sys.argv[1], Path(sys.argv[2])
    tokenizer = AutoTokenizer.from_pretrained(source)
    tokenizer.add_special_tokens({"additional_special_tokens": ["<image>"]})
    # As Llama's and Gemma's do: each text begins with a token that the chat template writes as well.
    begin = tokenizer.bos_token
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single=f"{begin} $A", special_tokens=[(begin, tokenizer.bos_token_id)]
    )
    vision = CLIPVisionConfig(
        hidden_size=16, intermediate_size=16, num_hidden_layers=2, num_attention_heads=2, image_size=28, patch_size=14
    )
    text = LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=16, intermediate_size=16, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=2, max_position_embeddings=512, bos_token_id=1, eos_token_id=2, pad_token_id=2,
    )  # fmt: skip
    image_token = tokenizer.convert_tokens_to_ids("<image>")
    config = LlavaConfig(vision_config=vision, text_config=text, image_token_id=image_token, image_seq_length=4)
    model = LlavaForConditionalGeneration(config)
    model.save_pretrained(target)
    LlavaProcessor(
        image_processor=CLIPImageProcessorPil(size={"shortest_edge": 28}, crop_size={"height": 28, "width": 28}),
        tokenizer=tokenizer,
        patch_size=14,
        vision_feature_select_strategy="default",
        image_token="<image>",
        num_additional_image_tokens=1,
    ).save_pretrained(target)


if __name__ == "__main__":
    main()
