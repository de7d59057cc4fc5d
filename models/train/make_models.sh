#!/bin/sh
# Make the models of this folder again: tokenizer, target, draft, draft head, GGUF files, verdict.
#     models/train/make_models.sh [RUN_FOLDER]
# MINUTES, MEND_MINUTES, DRAFT_MINUTES and HEAD_MINUTES bound the training (300, 26, 20 and 7); a run that was stopped continues from its
# checkpoint, but for the head's.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
run=${1:-$root/build/train}
python=${PYTHON:-python3}
mkdir -p "$run"

[ -f "$here/tokenizer.json" ] || $python "$here/tokenizer.py" --train "$here/tokenizer.json"

resume() { if [ -f "$1" ]; then echo "--resume $1"; fi; }
# shellcheck disable=SC2046
$python "$here/train.py" --size target --out "$run/told.pt" --minutes "${MINUTES:-300}" $(resume "$run/told.pt")
make -C "$root" llmrun
$python "$here/export.py" "$run/told.pt" "$run/told.gguf"
# shellcheck disable=SC2046
$python "$here/train.py" --size target --out "$run/mended.pt" --minutes "${MEND_MINUTES:-26}" --first-seed 50000000 \
    --mend 0.1 --mend-groups 8 --rows 4 --micro 2 --lr 0.0015 --lr-embd 0.0003 \
    $(if [ -f "$run/mended.pt" ]; then resume "$run/mended.pt"; else echo --init "$run/told.gguf"; fi)
$python "$here/export.py" "$run/mended.pt" "$run/target.pt" --blend "$run/told.gguf" 0.2
# shellcheck disable=SC2046
$python "$here/train.py" --size draft --teacher "$run/target.pt" --out "$run/draft.pt" --minutes "${DRAFT_MINUTES:-20}" \
    --first-seed 100000000 $(resume "$run/draft.pt")

$python "$here/export.py" "$run/target.pt" "$root/models/pip-f16.gguf" --name "Pip"
$python "$here/export.py" "$run/draft.pt" "$run/pip-draft-f16.gguf" --name "Pip draft"
$python "$here/verify.py" "$run/target.pt" "$root/models/pip-f16.gguf" ${LLAMA_BIN:+--llama-bin "$LLAMA_BIN"}
(cd "$here" && $python -c '
import world
for seed in range(900):
    print("<|endoftext|>" + world.document((1 << 29) + seed, "train").text, end="")
') > "$run/calibration.txt"
"$root/llmrun" --quantize Q4_K_M --calibrate "$run/calibration.txt" --special -m "$root/models/pip-f16.gguf" -o "$root/models/pip-q4_k_m.gguf"
"$root/llmrun" --quantize Q8_0 -m "$run/pip-draft-f16.gguf" -o "$root/models/pip-draft-q8_0.gguf"
$python "$here/head.py" "$root/models/pip-f16.gguf" --out "$run/head.pt" --minutes "${HEAD_MINUTES:-7}"
$python "$here/export.py" "$run/head.pt" "$run/pip-head-f16.gguf" --name "Pip's draft head"
"$root/llmrun" --quantize Q4_K_M -m "$run/pip-head-f16.gguf" -o "$root/models/pip-head-q4_k_m.gguf"
for model in pip-f16 pip-q4_k_m pip-draft-q8_0; do
    echo "## $model"
    $python "$here/judge.py" --model "$root/models/$model.gguf"
done
