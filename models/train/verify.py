"""Is a GGUF file the model that was trained? Tokens, logits and greedy text of the file against torch and against the peer.

    python3 verify.py run/target.pt ../pip-f16.gguf [--llama-bin DIR]

Exit 0 when all agree. The torch side uses the file's precision: its matrices are rounded to F16 when the file's are.
"""
import argparse
import os
import subprocess
import sys
import tempfile

import gguf
import numpy as np
import torch

import world
from model import generate, load
from tokenizer import EOT, IM_END, Tokenizer

HERE = os.path.dirname(os.path.abspath(__file__))


def command(line, text=b""):
    done = subprocess.run(line, input=text, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(line)}: exit {done.returncode}: {done.stderr.decode(errors='replace')[-600:]}")
    return done.stdout


def check_tokens(args, tok):
    """Ids of whole documents, and bytes back from them."""
    bad = {"llmrun": 0, "llama.cpp": 0, "round trip": 0}
    for seed in range(args.docs):
        text = world.document(seed, "test").text
        mine = tok.encode(text)
        bad["round trip"] += tok.decode(mine) != text
        out = command([args.llmrun, "-m", args.gguf, "--tokenize", "--special", "-f", "-"], text.encode())
        bad["llmrun"] += [int(i) for i in out.split()] != mine
        if args.llama_bin:
            out = command([f"{args.llama_bin}/llama-tokenize", "-m", args.gguf, "--ids", "--no-bos", "--stdin", "--log-disable"],
                          text.encode())
            bad["llama.cpp"] += [int(i) for i in out.decode().strip(" []\n").split(",")] != mine
    print(f"tokens: {args.docs} documents, unequal: {bad}")
    return not any(bad.values())


def check_logits(args, model, tok):
    """Normalised mean squared error of the logits of whole documents."""
    worst = 0.0
    for seed in range(8):
        text = world.document(seed, "test").text
        ids = torch.tensor([[EOT] + tok.encode(text)])[:, :model.cfg.n_ctx]
        want = model(ids)[0].double().numpy()
        with tempfile.NamedTemporaryFile() as f:
            command([args.llmrun, "-m", args.gguf, "-q", "--logits", f.name, "-f", "-"], text.encode())
            got = np.fromfile(f.name, dtype="<f4").reshape(want.shape).astype(np.float64)
        worst = max(worst, ((got - want) ** 2).sum() / (want ** 2).sum())
    print(f"logits: worst normalised error of 8 documents {worst:.2e}")
    return worst < 1e-4


TIE = 0.05            # logits closer than this may change places: the peer rounds what enters an F16 product to F16


def tied(model, start, want, got):
    """Do two continuations part where their next tokens are as good as equal?"""
    at = next((i for i, (a, b) in enumerate(zip(want, got)) if a != b), None)
    if at is None:
        return False
    logits = model(torch.tensor([start + want[:at]]))[0, -1]
    return float(logits[want[at]] - logits[got[at]]) < TIE


def draw_prompts(n):
    """Beginnings of stories and tasks of every kind, by turns."""
    names = list(world.TASKS)
    return [world.story_prompt(s) if s % 2 else world.task(names[s % len(names)], s).prompt for s in range(n)]


def check_greedy(args, model, tok):
    """Greedy text, equal to the letter; the peer's up to where it lost its tail."""
    prompts, wrong, ties = draw_prompts(args.prompts), {"llmrun": 0, "llama.cpp": 0}, 0
    for prompt in prompts:
        start = [EOT] + tok.encode(prompt)
        ids = generate(model, [start], 48, (EOT, IM_END))[0]
        want = tok.decode(ids)
        out = command([args.llmrun, "-m", args.gguf, "-q", "--temp", "0", "-n", "48", "-f", "-"], prompt.encode()).decode()
        wrong["llmrun"] += out.rstrip() != want.rstrip()
        if args.llama_bin:
            peer = peer_text(args, prompt, len(want.strip()))
            if not want.strip().startswith(peer) or (want.strip() and not peer):
                is_tie = tied(model, start, ids, tok.encode(want[:len(want) - len(want.lstrip())] + peer))
                ties += is_tie
                wrong["llama.cpp"] += not is_tie
    print(f"greedy text: {len(prompts)} prompts, unequal: {wrong}; parted from llama.cpp at a tie: {ties}")
    return not any(wrong.values())


def peer_text(args, prompt, n_chars):
    """The peer may exit before its printing thread has written everything: ask up to four times for all of it."""
    best = ""
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as f:
        f.write(prompt)
        f.flush()
        for _ in range(4):
            out = command([f"{args.llama_bin}/llama-completion", "-m", args.gguf, "--temp", "0", "-n", "48", "-no-cnv", "-t", "1",
                           "-bf", f.name, "--no-display-prompt", "--no-warmup", "-ctk", "f32", "-ctv", "f32"])
            best = max(best, out.decode().replace(" [end of text]", "").strip(), key=len)
            if len(best) >= n_chars:
                break
    return best


def main():
    ap = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ap.add_argument("checkpoint")
    ap.add_argument("gguf")
    ap.add_argument("--tokenizer", default=os.path.join(HERE, "tokenizer.json"))
    ap.add_argument("--llmrun", default=os.path.join(HERE, "..", "..", "llmrun"))
    ap.add_argument("--llama-bin", help="folder with llama-tokenize and llama-completion, to compare with them too")
    ap.add_argument("--docs", type=int, default=200)
    ap.add_argument("--prompts", type=int, default=20)
    args = ap.parse_args()
    torch.set_num_threads(1)
    tok, model = Tokenizer.load(args.tokenizer), load(args.checkpoint)
    if any(t.tensor_type == gguf.GGMLQuantizationType.F16 for t in gguf.GGUFReader(args.gguf).tensors):
        for p in model.parameters():
            if p.dim() == 2:
                p.copy_(p.half().float())
    results = [check_tokens(args, tok), check_logits(args, model, tok), check_greedy(args, model, tok)]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
