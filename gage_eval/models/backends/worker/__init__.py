"""The engine side: what runs in the interpreter that has torch or vLLM, which need not have this package.

Nothing here imports more of the package than this folder, and heavy libraries only inside functions.
"""
