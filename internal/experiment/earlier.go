package experiment

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/voxsaw/voxsaw/internal/config"
	"github.com/voxsaw/voxsaw/internal/pretext"
	"github.com/voxsaw/voxsaw/internal/train"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

// This file: encoders that an earlier version began, from whose settings of the plan another crop
// did not take the size of the patches.

// goOn finds the initialisations of which an earlier version began an encoder in the experiment's
// folder with other settings than this version gives them. All their encoders have those; the notes
// say so.
func (p *Plan) goOn(out string, cache *prepared.Store) (notes []string, err error) {
	p.asBegun = nil
	begun := map[string]bool{}
	for _, i := range p.Inits {
		if !i.pretrains() {
			continue
		}
		name := "initialisation " + i.Name + ": pretrain"
		now, err := pretext.Override(&p.Pretrain.OneOf, name, i.Pretrain)
		if err != nil {
			return nil, err
		}
		then, err := pretext.OverrideEarlier(&p.Pretrain.OneOf, name, i.Pretrain)
		if err != nil {
			return nil, err
		}
		kept, err := unlike(&now, &then)
		if err != nil {
			return nil, err
		}
		if len(kept) == 0 {
			continue
		}
		// what cannot be resolved was not begun so
		resolve := func(of *config.OneOf) error {
			_, settings := pretext.Scans.Chosen(of)
			return settings.Resolve(cache)
		}
		failed := resolve(&now)
		if resolve(&then) != nil {
			continue
		}
		if differ, err := unlike(&now, &then); err != nil {
			return nil, err
		} else if failed == nil && len(differ) == 0 {
			continue
		}
		recorded := encoderRecord{OneOf: pretext.Scans.Choice()}
		// what is damaged, or of settings that are gone, is told when its encoder is opened
		if record := begunFirst(filepath.Join(out, pretrainingFolder, i.Name)); record == "" ||
			config.Load(record, &recorded) != nil {
			continue
		}
		differ, err := unlike(&recorded.OneOf, &then)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(differ, func(key string) bool { return slices.Contains(kept, key) }) {
			continue
		}
		begun[i.Name] = true
		notes = append(notes, fmt.Sprintf("WARNING: initialisation %s: an earlier version began its pretraining with "+
			"the plan's %s, where another crop has one of its own now. It goes on so; in a folder of its own, the "+
			"same plan has the other", i.Name, strings.Join(kept, ", ")))
	}
	p.asBegun = begun
	return notes, nil
}

// unlike are the keys of settings that differ.
func unlike(a, b *config.OneOf) (keys []string, err error) {
	var texts [2]string
	for n, of := range []*config.OneOf{a, b} {
		text, err := config.Marshal(&Pretrain{*of})
		if err != nil {
			return nil, err
		}
		texts[n] = string(text)
	}
	differences, err := config.Differences(texts[0], texts[1])
	for _, d := range differences {
		keys = append(keys, d.Key)
	}
	return keys, err
}

// begunFirst is the record of an encoder that has begun, in the folder of an initialisation or in
// those of its folds and numbers; "" where there is none.
func begunFirst(folder string) string {
	for _, below := range []string{"", "*", "*/*"} {
		if found, err := fs.Glob(os.DirFS(folder), path.Join(below, train.ConfigOf(""))); err == nil && len(found) > 0 {
			return filepath.Join(folder, filepath.FromSlash(found[0]))
		}
	}
	return ""
}
