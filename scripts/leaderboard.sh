#!/usr/bin/env bash
# Repeats docs/results/leaderboard.md: carries out its plans, or what is left of them, and gathers
# what comes of them in docs/results/leaderboard. Some twenty hours on two cores; Ctrl-C stops it, and
# the same command goes on from there.
#
#   bash scripts/leaderboard.sh SCANS STUDY              all of it
#   bash scripts/leaderboard.sh --gather STUDY           gathers what is finished, and carries out nothing
#
# Runs that were gathered before stay, and are compared with those of the study: the same run must have the
# same scores, as it has on processors with AVX-512. Where other processors give other last digits, move
# docs/results/leaderboard away first.
#
# SCANS is the folder of OpenKBP's 99 patients. STUDY gets the program as it was at the start, the
# prepared cases, a folder for each plan, and a log for each process. There is a process of one thread for
# each core: they share the trials of a plan. VOXSAW names another program, such as a newer one to gather.
set -euo pipefail
shopt -s inherit_errexit
if [ $# -ne 2 ]; then
  sed -n '2,16s/^# \{0,1\}//p' "$0" >&2
  exit 2
fi
here=$(realpath "$(dirname "$0")/..")
results=$here/docs/results/leaderboard
plans=(leaderboard-{tuning,claim,labels,longer} leaderboard leaderboard-{ablations,plateau,doubled,equal})
pids=() # of processes that carry out trials
scans=$1
[ "$scans" = --gather ] || scans=$(realpath -e "$scans")
mkdir -p "$2/runs"
cd "$2"
ln -sfn "$here/configs" configs # plans name files there

crossval() { # PLAN [FLAG ...], in a process of its own
  local plan=$1
  shift
  exec "${VOXSAW:-./voxsaw}" crossval --config "configs/$plan.yaml" --out "runs/$plan" --threads 1 "$@"
}

# reuse PLAN: what a plan shares with an earlier one is copied, since the same settings give the same bytes.
reuse() {
  local fold seed
  for fold in 1 2 3; do
    case $1 in
      leaderboard-labels)
        copy "$1" claim pretraining/hard/fold-$fold{,} # its runs have other post-processing
        ;;
      leaderboard-longer)
        copy "$1" claim pretraining/hard/fold-$fold{,}
        for seed in 1 2 3; do copy "$1" claim trials/{scratch+,scratch}/fold-$fold/fraction-0.1/seed-$seed; done
        ;;
      leaderboard-plateau) copy "$1" claim trials/{scratch+,scratch}/fold-$fold/fraction-0.1/seed-1 ;;
      leaderboard-doubled)
        copy "$1" claim pretraining/hard/fold-$fold{,}
        copy "$1" plateau trials/{scratch+,scratch}/fold-$fold/fraction-0.1/seed-1
        ;;
      leaderboard)
        [ $fold = 3 ] || for seed in 1 2; do copy "$1" claim trials/{scratch,scratch+}/fold-$fold/fraction-0.1/seed-$seed; done
        ;;
    esac
  done
}

finished() { grep -qs '"finished": true' "$1/run.json"; }

copy() { # PLAN OTHER FROM TO: a run of OTHER becomes one of PLAN
  local from=runs/leaderboard-$2/$3 to=runs/$1/$4
  finished "$from" && ! finished "$to" || return 0
  mkdir -p "$(dirname "$to")"
  rm -rf "$to" "$to.part"
  cp -r "$from" "$to.part"
  mv "$to.part" "$to"
}

carry_out() {
  [ -x voxsaw ] || CGO_ENABLED=0 go build -C "$here" -o "$PWD/voxsaw" ./cmd/voxsaw
  ./voxsaw prepare "$scans" --spacing own --out prepared/openkbp --window=-200,300 --crop body
  local plan n
  trap 'kill "${pids[@]}" 2>/dev/null || true; wait' EXIT # each saves where it is
  trap 'exit 130' INT TERM
  for plan in "${plans[@]}"; do
    reuse "$plan"
    pids=()
    for n in $(seq "$(nproc)"); do
      crossval "$plan" >>"$plan.log$n" 2>&1 &
      pids+=($!)
    done
    for n in "${pids[@]}"; do
      wait "$n" || { echo "$plan failed: see $PWD/$plan.log*" >&2; exit 1; }
    done
    pids=()
  done
  trap - EXIT INT TERM
}

# sections REPORT TITLE ...: these sections of a report. Puzzles' pictures and slices are left to it: they are large.
sections() {
  local report=$1
  shift
  printf '%s\n' "$@" | awk '
    NR == FNR { wanted[$0]; next }
    /^## / { on = substr($0, 4) in wanted }
    !on { next }
    /^!\[.*\.png\)$/ { caption = substr($0, 3, index($0, "](") - 3); next }
    caption != "" && $0 == caption { next }
    { print }
  ' - "$report"
}

# compute FILE: a table of what the initialisations took.
compute() {
  printf '## Compute\n\n'
  awk -F, '
    NR == 1 {
      predicted = NF > 8 # earlier versions did not count predictions
      printf "| initialisation | encoders | steps of pretraining | TFLOP of pretraining | runs | steps of fine-tuning | TFLOP of fine-tuning | TFLOP of both |"
      print (predicted ? " TFLOP of predictions |" : "")
      print "|---|--:|--:|--:|--:|--:|--:|--:|" (predicted ? "--:|" : "")
      next
    }
    {
      printf "| %s | %s | %s | %s | %s | %s | %s | %s |", $1, $2, $3, two($4), $5, $6, two($7), two($8)
      print (predicted ? " " two($9) " |" : "")
    }
    function two(x) { return x == "" ? x : sprintf("%.2f", x) }
  ' "$1"
  echo
}

# encoders FILE: prints how many encoders a compute.csv counts, 0 where there is none.
encoders() {
  if [ -e "$1" ]; then awk -F, 'NR > 1 { sum += $2 } END { print sum + 0 }' "$1"; else echo 0; fi
}

# part PLAN NAME FOLDER TITLE ...: sections of the report in a folder become NAME.md, and their charts NAME-*.svg.
part() {
  local plan=$1 name=$2 folder=$3 page chart short curves=0 cases=0
  shift 3
  page=$results/$name.md
  {
    printf '# %s\n\n' "$name"
    printf 'What the report of configs/%s.yaml tells of its results; [leaderboard.md](../leaderboard.md) says how to read them.\n\n' "$plan"
    if [ "$folder" = "runs/$plan" ]; then
      sed -n 3p "$folder/report.md" && echo
      sections "$folder/report.md" "$@"
    else
      printf 'Runs of several machines, put together by `voxsaw compare`.\n\n'
      sections "$folder/report.md" "$@"
      case " $* " in *" Compute "*) compute "$folder/compute.csv" ;; esac
      # encoders: this machine's, unless more of them were gathered before
      for title; do
        [ "$title" = "Puzzles of unseen cases" ] || continue
        if [ "$(encoders "$results/$name-compute.csv")" -gt "$(encoders "runs/$plan/compute.csv")" ] && [ -e "$page" ] && grep -q "^## $title" "$page"; then
          sections "$page" "$title"
        else
          sections "runs/$plan/report.md" "$title"
        fi
      done
    fi
  } | cat -s >"$page.new"
  for chart in $(grep -o 'report_files/[^)]*\.svg' "$page.new" || true); do
    case $chart in
      *difference-to*) short=difference ;;
      *dsc-in-percent*) curves=$((curves + 1)) short=curves-$curves ;;
      *of-every-test-case*) cases=$((cases + 1)) short=cases-$cases ;;
      *) short=shares ;;
    esac
    cp "$folder/$chart" "$results/$name-${short%-1}.svg"
    sed -i "s|$chart|$name-${short%-1}.svg|" "$page.new"
  done
  mv "$page.new" "$page"
}

# all_runs PLAN NAME: prints the folder with the report on the runs of this study and on those that were
# gathered before: the study's own where that lacks none of them.
all_runs() {
  local own=runs/$1 name=$2 merged=merged/$2 kept=$results/$2 curves=() costs=() baseline file
  baseline=$(sed -n 's/^\*\*DSC (%): difference to \(.*\)\*\*$/\1/p' "$own/report.md")
  if [ -e "$kept-scores.csv" ]; then
    if [ -e "$own/curves.csv" ]; then curves+=(--curves "$own/curves.csv"); fi
    if [ -e "$kept-curves.csv" ]; then curves+=(--curves "$kept-curves.csv"); fi
    "${VOXSAW:-./voxsaw}" compare "$kept-scores.csv" "$own/scores.csv" "${curves[@]}" --out "$merged" ${baseline:+--baseline "$baseline"} >/dev/null || {
      echo "$name was not gathered: see what this script says of docs/results/leaderboard" >&2
      return 1
    }
    if [ "$(wc -l <"$merged/scores.csv")" -gt "$(wc -l <"$own/scores.csv")" ]; then
      # what a run takes is the same everywhere: how many there are, the scores say
      for file in "$kept-compute.csv" "$own/compute.csv"; do
        if [ -e "$file" ]; then costs+=("$file"); fi
      done
      awk -F, -v OFS=, '
        FILENAME == ARGV[1] { if (!(($1, $2, $3, $4) in run)) { run[$1, $2, $3, $4]; runs[$1]++ }; next }
        FNR == 1 { if (NF > columns) { header = $0; columns = NF }; next } # earlier versions have no predictions
        !($1 in row) { order[++n] = $1 }
        !($1 in row) || $2 > most[$1] || $2 == most[$1] && NF > cells[$1] { most[$1] = $2; cells[$1] = NF; $5 = runs[$1] + 0; row[$1] = $0 }
        END {
          if (header) print header
          for (i = 1; i <= n; i++) { $0 = row[order[i]]; if (NF < columns) $columns = ""; print }
        }
      ' "$merged/scores.csv" "${costs[@]}" >"$merged/compute.csv"
      own=$merged
    fi
  fi
  echo "$own"
}

gather() {
  mkdir -p "$results" merged
  local plan name file folder
  for plan in "${plans[@]}"; do
    [ -e "runs/$plan/plan.yaml" ] || continue
    name=${plan#leaderboard-}
    [ "$name" != leaderboard ] || name=board
    (crossval "$plan" --finished >/dev/null)
    [ -e "runs/$plan/scores.csv" ] || continue # nothing is finished
    if [ "$name" = claim ]; then
      (crossval "$plan" --finished --baseline scratch+ >/dev/null)
      folder=$(all_runs "$plan" "$name")
      part "$plan" claim-longer "$folder" Comparison "Other measures"
      (crossval "$plan" --finished >/dev/null)
    fi
    folder=$(all_runs "$plan" "$name")
    part "$plan" "$name" "$folder" "Segmentation of unseen cases" Comparison "Other measures" "More labels" Compute "Learning curves" "Puzzles of unseen cases" Structures
    for file in scores compute curves; do
      if [ -e "$folder/$file.csv" ]; then
        cp "$folder/$file.csv" "$results/$name-$file.csv.new"
        mv "$results/$name-$file.csv.new" "$results/$name-$file.csv"
      fi
    done
    cp "runs/$plan/subsets.json" "$results/$name-subsets.json"
    cp "runs/$plan/plan.yaml" "$results/$name-plan.yaml"
  done
}

[ "$scans" = --gather ] || carry_out
gather
echo "gathered in $results"
