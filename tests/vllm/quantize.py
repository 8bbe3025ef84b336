"""The packaged model in other precisions: ``python tests/vllm/quantize.py MODEL.gguf Q8_0=OUT.gguf Q4_0=OUT.gguf``.

Run by the interpreter that has gguf. Takes a few seconds.
"""

import sys

import gguf
import numpy as np


def main() -> None:
    source = gguf.GGUFReader(sys.argv[1])
    for wanted in sys.argv[2:]:
        name, _, out = wanted.partition("=")
        kind = gguf.GGMLQuantizationType[name]
        writer = gguf.GGUFWriter(out, "llama")
        for field in source.fields.values():
            if field.name.startswith("GGUF.") or field.name in ("general.architecture", "general.file_type"):
                continue
            within = field.types[-1] if field.types[0] == gguf.GGUFValueType.ARRAY else None
            writer.add_key_value(field.name, field.contents(), field.types[0], sub_type=within)
        writer.add_file_type(gguf.LlamaFileType[f"MOSTLY_{name}"])
        for tensor in source.tensors:
            values = gguf.dequantize(tensor.data, tensor.tensor_type).reshape(list(map(int, reversed(tensor.shape))))
            values = np.ascontiguousarray(values, dtype=np.float32)
            if values.ndim > 1:
                writer.add_tensor(tensor.name, gguf.quantize(values, kind), raw_dtype=kind)
            else:
                writer.add_tensor(tensor.name, values)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()


if __name__ == "__main__":
    main()
