//go:build unix

package prepare

import (
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/dataset"
	"github.com/voxsaw/voxsaw/volume/internal/datasettest"
)

// odd makes what is no file at a path.
var odd = map[string]func(path string) error{
	"pipe":    func(path string) error { return syscall.Mkfifo(path, 0o600) },
	"device":  func(path string) error { return os.Symlink("/dev/zero", path) },
	"loop":    func(path string) error { return os.Symlink(filepath.Base(path), path) },
	"nowhere": func(path string) error { return os.Symlink("gone", path) },
	"socket": func(path string) error {
		dir, err := os.MkdirTemp("/tmp", "") // sockets must have short paths
		if err != nil {
			return err
		}
		socket := filepath.Join(dir, "s")
		l, err := net.Listen("unix", socket)
		if err == nil {
			l.(*net.UnixListener).SetUnlinkOnClose(false)
			err = l.Close()
		}
		if err != nil {
			return err
		}
		return os.Symlink(socket, path)
	},
}

// What is no file among the slices of a series, or among files of scans, is passed over and named,
// by who inspects and by who prepares, and changes nothing of what is prepared.
func TestPipesAmongScans(t *testing.T) {
	for _, layout := range []string{"series", "files", "imagesTr"} {
		root, name := "", "999.dcm"
		switch layout {
		case "series":
			root = t.TempDir()
			v, _ := datasettest.Axial(t, 1)
			datasettest.WriteSeries(t, root, "1.2.3", v, false)
		case "files":
			root, name = tree(t, map[string]string{"p1.nii.gz": ""}), "p2.nii.gz"
		default:
			root, name = folderOf(t, "p1"), "imagesTr/p2.nii.gz"
		}
		want := ""
		for _, what := range append([]string{""}, "pipe", "device", "loop", "nowhere", "socket") {
			path := filepath.Join(root, name)
			if what != "" {
				if err := odd[what](path); err != nil {
					t.Fatal(err)
				}
			}
			d, err := dataset.Detect(root, dataset.Options{})
			if err != nil || len(d.Cases) != 1 {
				t.Fatalf("%s, %s: %v", layout, what, err)
			}
			s, err := Run(t.Context(), d, t.TempDir(), volume.DefaultPreparation(), Options{}, nil)
			switch {
			case err != nil || s.Prepared != 1:
				t.Errorf("%s, %s: %v, %+v", layout, what, err, s)
			case what == "":
				want = s.Fingerprint
			case s.Fingerprint != want:
				t.Errorf("%s, %s: fingerprint %s, without it %s", layout, what, s.Fingerprint, want)
			}
			entries, notes, err := dataset.Inspect(t.Context(), []string{root}, dataset.InspectOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if what == "" {
				continue
			}
			if told := slices.Concat(d.Notes, d.PassedOver); !datasettest.Noted(told, filepath.Base(name)) {
				t.Errorf("%s, %s: prepare says %q", layout, what, told)
				// the path again, and no reason
			} else if datasettest.Noted(told, ": open ") || datasettest.Noted(told, ": stat ") {
				t.Errorf("%s, %s: prepare says %q", layout, what, told)
			}
			named := slices.ContainsFunc(entries, func(e dataset.Entry) bool {
				return strings.HasSuffix(e.Path, filepath.Base(name)) && len(e.Problems) > 0
			})
			if !named && !datasettest.Noted(notes, filepath.Base(name)) {
				t.Errorf("%s, %s: inspect says %q, %+v", layout, what, notes, entries)
			}
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
		}
	}
}
