#!/usr/bin/env python3
"""The forms of --bench for three rows of made-up samples, and their statistics, computed here a second time.

    python3 tests/gen/golden_bench.py

Writes tests/data/golden/bench.md, .csv, .json and .jsonl. The samples and words below are those of tests/t_bench.c.
"""
import csv, io, json, os, statistics

GOLD = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data", "golden")
KEYS = ("build_commit build_number cpu_info gpu_info backends model_filename model_type model_size model_n_params n_batch n_ubatch "
        "n_threads cpu_mask cpu_strict poll type_k type_v n_gpu_layers n_cpu_moe split_mode main_gpu no_kv_offload flash_attn devices "
        "tensor_split tensor_buft_overrides load_mode embeddings no_op_offload no_host fit_target fit_min_ctx n_prompt n_gen n_depth "
        "test_time avg_ns stddev_ns avg_ts stddev_ts cpu_level n_parallel ttft_ms read_gbs sweep_gbs read_share int8_gops int8_peak_gops "
        "float_gops float_peak_gops bf16_gops bf16_peak_gops peak_share peak_rss others_share repack n_draft acceptance draft_model tokens_per_step speedup").split()
ALIKE = {"build_commit": "0.0.1", "build_number": 0, "cpu_info": 'A "fast" CPU\\', "gpu_info": "", "backends": "CPU",
         "model_filename": 'dir/a "b", c\n.gguf', "model_type": "llama 1.1B a|b \u00e9", "model_size": 667814528, "model_n_params": 1100048384,
         "n_batch": 2048, "n_ubatch": 512, "n_threads": 2, "cpu_mask": "0x0", "cpu_strict": False, "poll": 50, "type_k": "q8_0",
         "type_v": "f16", "n_gpu_layers": -1, "n_cpu_moe": 0, "split_mode": "layer", "main_gpu": 0, "no_kv_offload": False,
         "flash_attn": -1, "devices": "auto", "tensor_split": "0.00", "tensor_buft_overrides": "none", "load_mode": "mmap",
         "embeddings": False, "no_op_offload": 0, "no_host": False, "fit_target": 0, "fit_min_ctx": 0,
         "test_time": "2026-08-01T12:00:00Z", "cpu_level": "avx2", "peak_rss": 715653120, "repack": "on"}
# n_prompt, n_gen, n_depth, sequences, guesses, their chance in per cent; steps that made tokens; bytes, products of integers, floats
# and bf16; share of others; samples: seconds, until the first logits, what the machine gave (bytes, products of each kind, a second), and
# seconds that it would have taken without guesses
ROWS = [
    (512, 0, 0, 1, 0, 0, 0, 2.5e9, (5e11, 2e9, 3e9), None,
     [(2.0, 2.0, 2e10, (4e11, 1e11, 2e11), 0), (2.5, 2.5, 2.5e10, (4e11, 1e11, 2e11), 0), (1.6, 1.6, 3e10, (5e11, 1.25e11, 2.5e11), 0)]),
    (32, 128, 4096, 8, 0, 0, 128, 6.4e10, (1e11, 3e10, 0), 0.125, [(4.0, 0.25, 2e10, (4e11, 1e11, 1e11), 0)]),
    (0, 128, 100, 1, 4, 85, 40, 2.4e10, (5e10, 1e9, 8e9), 0.5,
     [(1.25, 0.05, 2e10, (4e11, 1e11, 2e11), 2), (1.0, 0.04, 2.5e10, (4e11, 1e11, 2.5e11), 1.8)]),
]
COLUMNS = [("model", -30), ("size", 10), ("params", 10), ("backend", -10), ("threads", 7), ("type_k", 6), ("test", 20), ("t/s", 20), ("speedup", 7),
           ("tok/step", 8), ("ttft ms", 9), ("read GB/s", 9), ("sweep GB/s", 10), ("of sweep", 8), ("Gop/s", 8), ("of peak", 7), ("peak MiB", 8)]


def row(n_prompt, n_gen, n_depth, n_seq, k, chance, steps, size, products, others, samples):
    mean, r = statistics.fmean, dict(ALIKE, n_prompt=n_prompt, n_gen=n_gen, n_depth=n_depth, n_parallel=n_seq, others_share=others,
                                     n_draft=k, acceptance=chance / 100, draft_model='a "draft".gguf' if k else "",
                                     tokens_per_step=n_gen / steps if steps else 0.0)
    sd = lambda x: statistics.stdev(x) if len(x) > 1 else 0.0
    ns = [s[0] * 1e9 for s in samples]
    ts = [(n_prompt + n_gen) * n_seq / s[0] for s in samples]
    r.update(avg_ns=int(mean(ns)), stddev_ns=int(sd(ns)), avg_ts=mean(ts), stddev_ts=sd(ts), ttft_ms=1e3 * mean(s[1] for s in samples),
             read_gbs=mean(size / s[0] for s in samples) / 1e9, sweep_gbs=mean(s[2] for s in samples) / 1e9,
             read_share=mean(size / s[0] / s[2] for s in samples), peak_share=mean(sum(p / m for p, m in zip(products, s[3])) / s[0] for s in samples),
             speedup=mean(s[4] / s[0] for s in samples) if k else 1.0 if n_gen and not n_prompt else None)
    for i, kind in enumerate(("int8", "float", "bf16")):
        r[kind + "_gops"] = mean(2 * products[i] / s[0] for s in samples) / 1e9
        r[kind + "_peak_gops"] = 2 * mean(s[3][i] for s in samples) / 1e9
    return r, ns, ts


def cells(r):
    test = "+".join(["pp%d" % r["n_prompt"]] * (r["n_prompt"] > 0) + ["tg%d" % r["n_gen"]] * (r["n_gen"] > 0))
    test += " k%d a%d" % (r["n_draft"], round(100 * r["acceptance"])) if r["n_draft"] else ""
    test += (" x%d" % r["n_parallel"] if r["n_parallel"] > 1 else "") + (" @ d%d" % r["n_depth"] if r["n_depth"] else "")
    return [r["model_type"].replace("|", "\\|"), "%.2f MiB" % (r["model_size"] / 2**20), "%.2f B" % (r["model_n_params"] / 1e9), "CPU", str(r["n_threads"]),
            r["type_k"], test, "%.2f \u00b1 %.2f" % (r["avg_ts"], r["stddev_ts"]), "%.2f" % r["speedup"] if r["speedup"] else "",
            "%.2f" % r["tokens_per_step"] if r["tokens_per_step"] else "", "%.1f" % r["ttft_ms"], "%.2f" % r["read_gbs"], "%.2f" % r["sweep_gbs"],
            "%.1f %%" % (100 * r["read_share"]), "%.1f" % (r["int8_gops"] + r["float_gops"] + r["bf16_gops"]), "%.1f %%" % (100 * r["peak_share"]),
            "%.1f" % (r["peak_rss"] / 2**20)]


def markdown(rows):
    line = lambda texts: "".join("| " + (t.ljust(-w) if w < 0 else t.rjust(w)) + " " for t, (_, w) in zip(texts, COLUMNS)) + "|\n"
    rule = "".join("| " + "-" * (abs(w) - 1) + ("- " if w < 0 else ": ") for _, w in COLUMNS) + "|\n"
    return line([t for t, _ in COLUMNS]) + rule + "".join(line(cells(r)) for r, _, _ in rows) + "\nbuild: llmrun 0.0.1\n"


def plain(v):
    return "" if v is None else "%f" % v if isinstance(v, float) else str(int(v)) if isinstance(v, (bool, int)) else v


def table(rows):
    f = io.StringIO()
    w = csv.writer(f, quoting=csv.QUOTE_ALL, lineterminator="\n")
    for r, _, _ in rows:
        w.writerow([plain(r[k]) for k in KEYS])
    return ",".join(KEYS) + "\n" + f.getvalue()


def objects(rows, between):
    value = lambda v: "null" if v is None else json.dumps(v, ensure_ascii=False) if isinstance(v, (str, bool)) else plain(v)
    for r, ns, ts in rows:
        yield between.join(['"%s": %s' % (k, value(r[k])) for k in KEYS] + ['"samples_ns": [ %s ]' % ", ".join("%.0f" % x for x in ns),
                                                                           '"samples_ts": [ %s ]' % ", ".join("%g" % x for x in ts)])


def main():
    rows = [row(*r) for r in ROWS]
    texts = {"md": markdown(rows), "csv": table(rows), "jsonl": "".join("{%s}\n" % o for o in objects(rows, ", ")),
             "json": "[\n" + ",\n".join("  {\n    %s\n  }" % o for o in objects(rows, ",\n    ")) + "\n]\n"}
    assert [json.loads(line) for line in texts["jsonl"].splitlines()] == json.loads(texts["json"])
    for form, text in texts.items():
        with open(os.path.join(GOLD, "bench." + form), "w", encoding="utf-8", newline="") as f:
            f.write(text)


main()
