"""A LoRA adapter, tiny and random, for the small model; and the model with the adapter merged into its weights.

Run by the interpreter that has torch: ``python tests/vllm/tiny_lora.py MODEL ADAPTER MERGED``. The merged model is the
truth an adapter is compared with: plain weights, W + (alpha / r) · B · A.
"""

import json
import sys
from pathlib import Path

RANK, ALPHA = 4, 8


def main() -> None:
    import torch
    from safetensors.torch import save_file
    from transformers import AutoModelForCausalLM, AutoTokenizer

    source, adapter, merged = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_pretrained(source, dtype=torch.float32)
    weights = {}
    with torch.no_grad():
        for name, module in model.named_modules():
            if name.rpartition(".")[2] not in ("q_proj", "v_proj"):
                continue
            down = torch.randn(RANK, module.in_features) * 0.02
            up = torch.randn(module.out_features, RANK) * 0.05
            weights[f"base_model.model.{name}.lora_A.weight"] = down
            weights[f"base_model.model.{name}.lora_B.weight"] = up
            module.weight += ALPHA / RANK * up @ down
    adapter.mkdir()
    save_file(weights, adapter / "adapter_model.safetensors")
    config = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": "base",
        "r": RANK,
        "lora_alpha": ALPHA,
        "target_modules": ["q_proj", "v_proj"],
        "bias": "none",
    }
    (adapter / "adapter_config.json").write_text(json.dumps(config))
    model.save_pretrained(merged)
    AutoTokenizer.from_pretrained(source).save_pretrained(merged)


if __name__ == "__main__":
    main()
