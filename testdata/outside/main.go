// Command outside is a program of another module: it uses the library as its users do. It is built
// and run by TestOutsideModule.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/eval"
	"github.com/voxsaw/voxsaw/puzzle3d"
	"github.com/voxsaw/voxsaw/sample"
	"github.com/voxsaw/voxsaw/segment"
	"github.com/voxsaw/voxsaw/vnet"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/dataset"
	"github.com/voxsaw/voxsaw/volume/nifti"
	"github.com/voxsaw/voxsaw/volume/phantom"
	"github.com/voxsaw/voxsaw/volume/prepare"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

func main() {
	if err := run(); err != nil {
		log.Fatal(err)
	}
	fmt.Println("done")
}

// watch prints nothing; it shows that an observer can be written.
type watch struct{ steps int }

func (w *watch) Started(int, int)                       {}
func (w *watch) Stepped(voxsaw.Progress)                { w.steps++ }
func (w *watch) Validated(int, voxsaw.Validation, bool) {}
func (w *watch) Saved(string, int)                      {}
func (w *watch) Note(string)                            {}

func run() error {
	folder, err := os.MkdirTemp("", "outside")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	ctx := context.Background()
	scans := filepath.Join(folder, "scans")
	for n := range 4 {
		for _, sub := range []string{"imagesTr", "labelsTr"} {
			if err := os.MkdirAll(filepath.Join(scans, sub), 0o755); err != nil {
				return err
			}
		}
		scan, organs, err := phantom.New(uint64(n), phantom.Options{Shape: [3]int{28, 24, 24}})
		if err != nil {
			return err
		}
		name := fmt.Sprintf("case_%d.nii.gz", n)
		if err := nifti.Write(filepath.Join(scans, "imagesTr", name), scan); err != nil {
			return err
		}
		if err := nifti.WriteLabels(filepath.Join(scans, "labelsTr", name), organs); err != nil {
			return err
		}
	}
	set, err := dataset.Detect(scans, dataset.Options{})
	if err != nil {
		return err
	}
	cases := filepath.Join(folder, "prepared")
	if _, err := prepare.Run(ctx, set, cases, volume.DefaultPreparation(), prepare.DefaultOptions(),
		func(prepare.Result) {}); err != nil {
		return err
	}
	store, err := prepared.Open(cases)
	if err != nil {
		return err
	}
	defer store.Close()

	dev, err := voxsaw.Open("cpu", voxsaw.DeviceOptions{Threads: 2})
	if err != nil {
		return err
	}
	defer dev.Close()
	network := vnet.Default()
	network.Channels, network.Levels, network.Norm = 4, 1, "instance"

	p := puzzle3d.DefaultConfig()
	p.Network, p.Grid, p.Crop, p.Features, p.Train.Steps = network, [4]int{2, 2, 2}, [3]int{24, 20, 20}, 16, 2
	w := &watch{}
	training, held := []string{"case_0", "case_1", "case_2"}, []string{"case_3"}
	encoder := filepath.Join(folder, "encoder")
	if _, err := puzzle3d.Pretrain(ctx, dev, p, sample.Data{Store: store, Train: training, Validate: held},
		voxsaw.RunOptions{Folder: encoder, Observer: w}); err != nil {
		return err
	}
	if w.steps != 2 {
		return fmt.Errorf("%d steps were watched", w.steps)
	}

	s := segment.DefaultConfig()
	s.Network, s.Crop, s.Labels, s.Train.Steps = network, [3]int{16, 16, 16}, []string{"2"}, 2
	organs := filepath.Join(folder, "organs")
	_, loaded, err := segment.Finetune(ctx, dev, s, sample.Data{Store: store, Train: training},
		filepath.Join(encoder, "last.safetensors"), voxsaw.RunOptions{Folder: organs})
	if err != nil {
		return err
	}
	if len(loaded.Loaded) == 0 {
		return fmt.Errorf("nothing was loaded: %v", loaded)
	}
	predictor, err := segment.NewPredictor(dev, []string{organs}, segment.DefaultInference(), 0)
	if err != nil {
		return err
	}
	defer predictor.Close()
	scan, err := nifti.Read(filepath.Join(scans, "imagesTr", "case_3.nii.gz"))
	if err != nil {
		return err
	}
	labels, err := predictor.Predict(ctx, scan)
	if err != nil {
		return err
	}
	reference, err := nifti.ReadLabels(filepath.Join(scans, "labelsTr", "case_3.nii.gz"))
	if err != nil {
		return err
	}
	scores, err := eval.Compare("case_3", labels, predictor.Reference(reference), eval.DefaultOptions())
	if err != nil {
		return err
	}
	if len(scores) != 1 {
		return fmt.Errorf("%d scores of one label", len(scores))
	}
	m, _, err := vnet.Open(dev, filepath.Join(organs, "last.safetensors"), [3]int{8, 8, 8})
	if err != nil {
		return err
	}
	defer m.Close()
	_, err = m.Logits(make([]float32, 8*8*8))
	return err
}
