package cli

import (
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/voxsaw/voxsaw/internal/config"
)

// isNumber tells the flags that take numbers.
func isNumber(f *pflag.Flag) bool {
	kind, _, _ := strings.Cut(f.Value.Type(), ",...")
	return slices.Contains([]string{"int", "number", "float", "A,B", "AxB", "AxBxC"}, kind) ||
		strings.Contains(f.Name, "memory")
}

// No flag takes a number that makes no sense, whichever verb it belongs to; and what a flag is by
// default, it takes.
func TestNonsenseIsRefused(t *testing.T) {
	mayBeNegative := []string{"dropout", "window"} // the network's own; Hounsfield units
	seen := 0
	for _, cmd := range verbs(newRoot()) {
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if !isNumber(f) {
				return
			}
			seen++
			if f.DefValue != "" {
				if err := f.Value.Set(f.DefValue); err != nil {
					t.Errorf("%s --%s: its default is refused: %v", cmd.CommandPath(), f.Name, err)
				}
			}
			nonsense := []string{"-1", "nan", "inf", "-inf", "many"}
			for _, name := range mayBeNegative {
				if strings.HasSuffix(f.Name, name) && f.Value.Type() != "AxBxC" {
					nonsense = nonsense[1:3]
				}
			}
			for _, text := range nonsense {
				if f.Value.Type() == "A,B" {
					text += ",400"
				}
				if err := f.Value.Set(text); err == nil {
					t.Errorf("%s --%s %s is taken", cmd.CommandPath(), f.Name, text)
				}
			}
		})
	}
	if seen < 300 {
		t.Errorf("only %d flags take numbers", seen)
	}
}

// No setting of a whole number takes one that is a slip of the fingers, with which computations of
// sizes would overflow, or take days: those of steps take a thousand million, seeds any.
func TestAbsurdNumbersAreRefused(t *testing.T) {
	large := map[string]bool{}
	for _, key := range []string{"steps", "step_size", "tooth", "warmup", "validate_every", "checkpoint_every",
		"freeze_encoder", "unlabelled_ramp", "labelled_last"} {
		large[key] = true
	}
	seen := 0
	for _, cmd := range verbs(newRoot()) {
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			kind := strings.TrimSuffix(f.Value.Type(), ",...")
			key := config.Key(f)
			key = key[strings.LastIndex(key, ".")+1:]
			extents := strings.HasPrefix(kind, "Ax") && !strings.HasSuffix(key, "spacing")
			if kind != "int" && !extents || strings.HasSuffix(key, "seed") || strings.HasSuffix(key, "seeds") {
				return
			}
			seen++
			absurd := []string{"9223372036854775807", "3000000000"}
			if !large[key] {
				absurd = append(absurd, "100000000")
			}
			if extents {
				absurd = append(absurd, "100000")
			}
			for _, text := range absurd {
				switch err := cmd.ParseFlags([]string{"--" + f.Name, text}); {
				case err == nil:
					t.Errorf("%s --%s %s is taken", cmd.CommandPath(), f.Name, text)
				case !strings.Contains(err.Error(), "--"+f.Name):
					t.Errorf("%s --%s %s: the error does not name the flag: %v", cmd.CommandPath(), f.Name, text, err)
				}
			}
		})
	}
	if seen < 150 {
		t.Errorf("only %d flags take whole numbers", seen)
	}
}

// What a number must be is said in words, for the verbs of the first hour.
func TestNonsenseIsExplained(t *testing.T) {
	for line, want := range map[string]string{
		"finetune --lr 0":                 "--lr 0: want more than 0, not 0",
		"finetune --lr -0.1":              "--lr -0.1: want more than 0, not -0.1",
		"finetune --lr inf":               "--lr inf: want more than 0, not +Inf",
		"finetune --steps 0":              "--steps 0: want 1 or more, not 0",
		"finetune --threads -1":           "--threads -1: want 0 or more and at most 4096, not -1",
		"finetune --loaders -1":           "--loaders -1: want 0 or more, not -1",
		"finetune --loaders 100000000":    "--loaders 100000000: want at most 256, not 100000000",
		"finetune --batch 100000000":      "--batch 100000000: want at most 4096, not 100000000",
		"finetune --crop 100000,96,96":    "--crop 100000,96,96: want at most 4096, not 100000",
		"finetune --steps 10000000000":    "--steps 10000000000: want at most 1000000000, not 10000000000",
		"finetune --batch x":              `--batch x: "x" is not a whole number, nor auto`,
		"finetune --batch -1":             "--batch -1: want 0 or more, not -1",
		"finetune --momentum 1":           "--momentum 1: want 0 or more and less than 1, not 1",
		"finetune --dropout 1":            "--dropout 1: want less than 1, not 1",
		"finetune --fraction 0":           "--fraction 0: want more than 0 and at most 1, not 0",
		"finetune --folds 1":              "--folds 1: want 2 or more, not 1",
		"finetune --crop 64x0x64":         "--crop 64x0x64: want 1 or more, not 0",
		"finetune --foreground 1.5":       "--foreground 1.5: want 0 or more and at most 1, not 1.5",
		"pretrain --max-air 2":            "--max-air 2: want 0 or more and at most 1, not 2",
		"pretrain --patch -1":             "--patch -1: want 0 or more, not -1",
		"pretrain --distance 4":           "--distance 4: want 2 or more and at most 3, not 4",
		"predict s --overlap 1":           "--overlap 1: want 0 or more and at most 0.95, not 1",
		"predict s --volume -2":           "--volume -2: want 0 or more, not -2",
		"prepare s --spacing 1x-1x1":      "--spacing 1x-1x1: want 0 or more, not -1",
		"prepare s --workers -3":          "--workers -3: want 0 or more, not -3",
		"crossval --trial -1":             "--trial -1: want 0 or more, not -1",
		"crossval --fractions 0.1,2":      "--fractions 0.1,2: want more than 0 and at most 1, not 2",
		"crossval --finetune-lr 0":        "--finetune-lr 0: want more than 0, not 0",
		"evaluate a b --tolerance -2":     "--tolerance -2: want 0 or more, not -2",
		"evaluate a b --labels 0":         "label 0: want 1 to 65535 (0 is the background)",
		"power s --alpha 5":               "--alpha 5: want more than 0 and less than 1, not 5",
		"solve --rounds -1":               "--rounds -1: want 0 or more, not -1",
		"tune --batch 0":                  "--batch 0: want 1 or more, not 0",
		"bench segment --steps 0":         "--steps 0: want 1 or more, not 0",
		"2d prepare p --size 0x255":       "--size 0x255: want 1 or more, not 0",
		"2d pretrain --width 0":           "--width 0: want more than 0, not 0",
		"2d finetune --most-proposals -1": "--most-proposals -1: want 0 or more, not -1",
		"2d transfer --C 0":               "--C 0: want more than 0, not 0",
	} {
		var stderr strings.Builder
		code := Run(strings.Fields(line), &strings.Builder{}, &stderr)
		first, _, _ := strings.Cut(stderr.String(), "\n")
		if code != exitUsage || first != "voxsaw: "+want {
			t.Errorf("voxsaw %s: exit code %d, %q, want %q", line, code, first, want)
		}
	}
}
