#!/usr/bin/env python3
"""Does the peer continue prompts as llmrun does, from files that llmrun wrote of every weight type? Markdown on stdout.

    LLAMA_CPP=DIR python3 tests/bench/greedy.py --llmrun ./llmrun --model models/pip-f16.gguf [--types Q4_K_M,Q8_0]

DIR holds llama-completion. Both decode greedily, with f32 caches. Where their texts differ, the table has the gap between the two tokens in llmrun's
logits: both round activations to 8 bits, each in its own way, so nearly equal logits may swap; a wrong layout of a type would make them
differ at once, at large gaps. Exit 1 if a type differs at a gap beyond --tie, or the peer cannot read a file of a type that it has.
"""
import argparse, os, sys, tempfile

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [HERE, os.path.join(ROOT, "models", "train")]
import verify                                            # noqa: E402
from quality import TYPES                                # noqa: E402
from tokenizer import Tokenizer                          # noqa: E402

N_NEW = 48


def gap(llmrun, model, tok, prompt, ours, theirs):
    """How much likelier llmrun thought its own token than the peer's where they first differ, in logits."""
    start = tok.encode(prompt)
    a, b = tok.encode(prompt + ours), tok.encode(prompt + theirs)
    at = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), None)
    if at is None or at < len(start):
        return float("inf")
    with tempfile.NamedTemporaryFile() as f:
        verify.command([llmrun, "-m", model, "-q", "--logits", f.name, "-f", "-"], tok.decode(a[:at]).encode())
        last = np.fromfile(f.name, dtype="<f4").reshape(-1, len(tok.tokens))[-1]
    return float(last[a[at]] - last[b[at]])


def compare(args, tok, model, prompts):
    """(prompts with the same text, gaps of the others)"""
    peer, same, gaps = argparse.Namespace(gguf=model, llama_bin=args.llama_cpp), 0, []
    for prompt in prompts:
        ours = verify.command([args.llmrun, "-m", model, "-q", "--raw", "--temp", "0", "-n", str(N_NEW), "-ctk", "f32", "-ctv", "f32", "-f", "-"],
                              prompt.encode()).decode().rstrip()
        lead = ours[:len(ours) - len(ours.lstrip())]
        theirs = lead + verify.peer_text(peer, prompt, len(ours.strip()))
        if ours.startswith(theirs) and (theirs.strip() or not ours.strip()):
            same += 1                                    # the peer may lose its tail
        else:
            gaps.append(gap(args.llmrun, model, tok, prompt, ours, theirs))
    return same, sorted(gaps)


def main():
    ap = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ap.add_argument("--llmrun", default=os.path.join(ROOT, "llmrun"))
    ap.add_argument("--model", default=os.path.join(ROOT, "models", "pip-f16.gguf"))
    ap.add_argument("--types", default=",".join(["F16"] + TYPES))
    ap.add_argument("--prompts", type=int, default=16)
    ap.add_argument("--tie", type=float, default=0.3, help="largest gap that rounding explains, in logits (default %(default)s)")
    args = ap.parse_args()
    args.llama_cpp = os.environ.get("LLAMA_CPP") or ap.error("LLAMA_CPP names no folder")
    tok, prompts, bad = Tokenizer.load(os.path.join(ROOT, "models", "train", "tokenizer.json")), verify.draw_prompts(args.prompts), []
    print("| type | prompts | same text | parted at a gap of |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for kind in args.types.split(","):
            model = os.path.join(folder, "model.gguf")
            verify.command([args.llmrun, "-q", "--quantize", kind, "-m", args.model, "-o", model])
            try:
                same, gaps = compare(args, tok, model, prompts)
            except SystemExit as e:
                what = str(e).splitlines()[-1][:60]
                bad.append(kind)
                print(f"| {kind} | - | - | {what} |", flush=True)
                continue
            if gaps and gaps[-1] > args.tie:
                bad.append(kind)
            print(f"| {kind} | {len(prompts)} | {same} | {', '.join(f'{g:.3f}' for g in gaps)} |", flush=True)
    if bad:
        print(f"{os.path.basename(__file__)}: {', '.join(bad)}", file=sys.stderr)
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
