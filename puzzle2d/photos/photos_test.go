package photos

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/voxsaw/voxsaw/internal/atomicfile"
	"github.com/voxsaw/voxsaw/internal/photo"
)

// picture is a JPEG that differs from those with other numbers.
func picture(t testing.TB, number int) []byte {
	t.Helper()
	m := image.NewRGBA(image.Rect(0, 0, 40+number%7, 33+number%5))
	for y := range m.Rect.Dy() {
		for x := range m.Rect.Dx() {
			m.Set(x, y, color.RGBA{byte(5*x + number), byte(7 * y), byte(40 * number), 255})
		}
	}
	var b bytes.Buffer
	if err := jpeg.Encode(&b, m, nil); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// tree writes files below a new folder: nil content is a picture of its own.
func tree(t testing.TB, files map[string][]byte) string {
	t.Helper()
	root := filepath.Join(t.TempDir(), "photos")
	names := make([]string, 0, len(files))
	for name := range files {
		names = append(names, name)
	}
	slices.Sort(names)
	for n, name := range names {
		content := files[name]
		if content == nil {
			content = picture(t, n)
		}
		put(t, filepath.Join(root, name), content)
	}
	return root
}

func put(t testing.TB, path string, content []byte) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o777), os.WriteFile(path, content, 0o666)); err != nil {
		t.Fatal(err)
	}
}

// pictures names so many files of a folder.
func pictures(files map[string][]byte, folder string, n int) map[string][]byte {
	for k := range n {
		files[fmt.Sprintf("%s/%03d.jpg", folder, k)] = nil
	}
	return files
}

func find(t testing.TB, root string) *Set {
	t.Helper()
	s, err := Find(root, 0.1, 0)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// listing is what a set holds, in words.
func listing(s *Set) (lines []string) {
	for _, p := range s.Photos {
		class := "-"
		if p.Class != Unlabelled {
			class = s.Classes[p.Class]
		}
		line := fmt.Sprintf("%s %s %s", p.Path, class, p.Split)
		for _, o := range p.Objects {
			line += fmt.Sprintf(" %s%v", s.Classes[o.Class], o.Box)
			if o.Difficult {
				line += "!"
			}
		}
		lines = append(lines, line)
	}
	return lines
}

func TestLayouts(t *testing.T) {
	some := picture(t, 1)
	var withoutName bytes.Buffer
	if err := png.Encode(&withoutName, image.NewGray(image.Rect(0, 0, 20, 20))); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		files  map[string][]byte
		layout string
		want   []string
	}{
		"flat": {map[string][]byte{"b.jpg": some, "a.JPEG": some, "notes.txt": []byte("x"), "._b.jpg": []byte("x"),
			".hidden/c.jpg": some},
			LayoutFolder, []string{"a.JPEG - train", "b.jpg - train"}},
		"classes": {map[string][]byte{"cat/1.jpg": some, "dog/big/2.png": some, "3.jpg": some,
			"cat/without name": withoutName.Bytes(), "cat/numbers": []byte("1 2 3")},
			LayoutFolder, []string{"3.jpg - train", "cat/1.jpg cat train", "cat/without name cat train",
				"dog/big/2.png dog train"}},
		"wrapped": {map[string][]byte{"set/images/cat/1.jpg": some, "set/images/dog/2.jpg": some}, LayoutFolder,
			[]string{"set/images/cat/1.jpg cat train", "set/images/dog/2.jpg dog train"}},
		"one class": {map[string][]byte{"cat/1.jpg": some, "cat/2.jpg": some}, LayoutFolder,
			[]string{"cat/1.jpg cat train", "cat/2.jpg cat train"}},
		"ImageNet": {map[string][]byte{"train/n01/1.JPEG": some, "train/n02/2.JPEG": some, "val/n02/3.JPEG": some,
			"test/4.JPEG": some, "other/5.JPEG": some},
			LayoutImageNet, []string{"test/4.JPEG - test", "train/n01/1.JPEG n01 train", "train/n02/2.JPEG n02 train",
				"val/n02/3.JPEG n02 val"}},
		"Tiny ImageNet": {map[string][]byte{"tiny/train/n01/images/1.JPEG": some, "tiny/train/n02/images/2.JPEG": some,
			"tiny/val/images/val_0.JPEG": some, "tiny/test/images/t.JPEG": some,
			"tiny/val/val_annotations.txt": []byte("val_0.JPEG\tn02\t0\t32\t44\t62\n")},
			LayoutTinyImageNet, []string{"tiny/test/images/t.JPEG - test", "tiny/train/n01/images/1.JPEG n01 train",
				"tiny/train/n02/images/2.JPEG n02 train", "tiny/val/images/val_0.JPEG n02 val"}},
		"Caltech": {map[string][]byte{"101_ObjectCategories/ant/1.jpg": some, "101_ObjectCategories/ant/2.jpg": some,
			"101_ObjectCategories/BACKGROUND_Google/3.jpg": some, "101_ObjectCategories/ant/4.jpg": some,
			"train.txt": []byte("ant/1.jpg\nBACKGROUND_Google/3.jpg\n"), "test.txt": []byte("ant/2.jpg\n\n")},
			LayoutLists, []string{"101_ObjectCategories/BACKGROUND_Google/3.jpg - train",
				"101_ObjectCategories/ant/1.jpg ant train", "101_ObjectCategories/ant/2.jpg ant test"}},
		"VOC": {map[string][]byte{
			"VOCdevkit/VOC2007/JPEGImages/000001.jpg": some, "VOCdevkit/VOC2007/JPEGImages/000002.jpg": some,
			"VOCdevkit/VOC2007/JPEGImages/000003.jpg": some, "VOCdevkit/VOC2007/JPEGImages/000009.jpg": some,
			"VOCdevkit/VOC2007/ImageSets/Main/train.txt":    []byte("000001\n"),
			"VOCdevkit/VOC2007/ImageSets/Main/val.txt":      []byte("000002\n"),
			"VOCdevkit/VOC2007/ImageSets/Main/trainval.txt": []byte("000001\n000002\n"),
			"VOCdevkit/VOC2007/ImageSets/Main/test.txt":     []byte("000003\n"),
			"VOCdevkit/VOC2007/Annotations/000001.xml": []byte(`<annotation><object><name>dog</name><difficult>1</difficult><bndbox><xmin>2</xmin><ymin>3</ymin><xmax>20</xmax><ymax>30</ymax></bndbox></object>
				<object><name>cat</name><difficult>0</difficult><bndbox><xmin>1</xmin><ymin>1</ymin><xmax>4</xmax><ymax>5</ymax></bndbox><part><name>head</name></part></object></annotation>`)},
			LayoutVOC, []string{"VOCdevkit/VOC2007/JPEGImages/000001.jpg - train dog[2 3 20 30]! cat[1 1 4 5]",
				"VOCdevkit/VOC2007/JPEGImages/000002.jpg - val", "VOCdevkit/VOC2007/JPEGImages/000003.jpg - test"}},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := Find(tree(t, c.files), 0, 0)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(c.want, listing(s)); d != "" || s.Layout != c.layout {
				t.Errorf("layout %s, want %s\n%s", s.Layout, c.layout, d)
			}
		})
	}
}

// What val or test alone has is no class, by folders and by lists: nothing learns it. That is
// noted.
func TestClassesThatAreNotTrained(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string][]byte
		want  []string
		note  string
	}{
		"folders": {map[string][]byte{"train/a/1.jpg": nil, "train/b/2.jpg": nil, "val/a/3.jpg": nil,
			"val/c/4.jpg": nil},
			[]string{"train/a/1.jpg a train", "train/b/2.jpg b train", "val/a/3.jpg a val", "val/c/4.jpg - val"},
			"1 of 2 photographs of val are of classes that train does not have: they are given none (c)"},
		"lists": {map[string][]byte{"a/1.jpg": nil, "b/2.jpg": nil, "b/4.jpg": nil, "c/3.jpg": nil,
			"train.txt": []byte("a/1.jpg\nb/2.jpg\n"), "test.txt": []byte("b/4.jpg\nc/3.jpg\n")},
			[]string{"a/1.jpg a train", "b/2.jpg b train", "b/4.jpg b test", "c/3.jpg - test"},
			"1 of 2 photographs of test are of classes that train does not have: they are given none (c)"},
		"a class on no list": {map[string][]byte{"a/1.jpg": nil, "b/2.jpg": nil, "b/4.jpg": nil, "d/3.jpg": nil,
			"train.txt": []byte("a/1.jpg\nb/2.jpg\n"), "test.txt": []byte("b/4.jpg\n")},
			[]string{"a/1.jpg a train", "b/2.jpg b train", "b/4.jpg b test"},
			"passed over, being on no side of the split: 1 photograph"},
	} {
		s, err := Find(tree(t, c.files), 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(c.want, listing(s)); d != "" || !slices.Equal(s.Classes, []string{"a", "b"}) {
			t.Errorf("%s: classes %v\n%s", name, s.Classes, d)
		}
		if d := cmp.Diff([]string{c.note}, s.Notes); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
}

// Sides that share no class are a set to learn new classes from few photographs: all are kept.
func TestSidesOfUnlikeClasses(t *testing.T) {
	s, err := Find(tree(t, map[string][]byte{"train/a/1.jpg": nil, "val/b/2.jpg": nil}), 0, 0)
	if err != nil || !slices.Equal(s.Classes, []string{"a", "b"}) {
		t.Errorf("classes %v, %v", s.Classes, err)
	}
}

func TestFindSaysWhatIsWrong(t *testing.T) {
	some := picture(t, 1)
	for name, c := range map[string]struct {
		files map[string][]byte
		want  string
	}{
		"nothing": {map[string][]byte{"notes.txt": []byte("x")}, "photos: no photograph here: JPEG, PNG"},
		"scans": {map[string][]byte{"a.nii.gz": []byte("x"), "b": append(make([]byte, 128), "DICM"...)},
			"photos holds 2 files of scans, not photographs: voxsaw prepare reads them"},
		"both lists": {map[string][]byte{"a/1.jpg": some, "a/2.jpg": some, "train.txt": []byte("a/1.jpg\na/2.jpg"),
			"test.txt": []byte("a/2.jpg")}, ".txt: a/2.jpg is in the list of another side, too"},
		"incomplete": {map[string][]byte{"a/1.jpg": some, "a/2.jpg": some, "train.txt": []byte("a/1.jpg\na/3.jpg"),
			"test.txt": []byte("a/2.jpg")},
			"train.txt lists photographs that are not there, 1 in all, such as a/3.jpg: complete the folder"},
		"annotation": {map[string][]byte{"JPEGImages/1.jpg": some, "ImageSets/Main/train.txt": []byte("1"),
			"Annotations/1.xml": []byte("<annotation")}, "1.xml is no annotation of Pascal VOC"},
		"box": {map[string][]byte{"JPEGImages/1.jpg": some, "ImageSets/Main/train.txt": []byte("1"),
			"Annotations/1.xml": []byte("<annotation><object><name>a</name><bndbox><xmin>5</xmin><xmax>1</xmax>" +
				"</bndbox></object></annotation>")}, "1.xml: an object without a name, or with a box whose " +
			"corners are exchanged"},
		"typing error": {map[string][]byte{"JPEGImages/1.jpg": some, "ImageSets/Main/train.txt": []byte("1"),
			"ImageSets/Main/horse_train.txt": []byte("1 1"), "ImageSets/Main/dog_trainval.txt": []byte("1 -1"),
			"ImageSets/Main/all_train.txt": []byte("1"),
			"Annotations/1.xml": []byte("<annotation><object><name>hrose</name><bndbox><xmin>1</xmin>" +
				"<ymin>1</ymin><xmax>2</xmax><ymax>2</ymax></bndbox></object></annotation>")},
			`1.xml: an object of class "hrose", which ImageSets/Main has no list of (dog, horse): mend the name`},
		"two years": {map[string][]byte{"VOC2007/JPEGImages/1.jpg": some,
			"VOC2007/ImageSets/Main/train.txt": []byte("1"), "VOC2012/JPEGImages/1.jpg": some,
			"VOC2012/ImageSets/Main/train.txt": []byte("1")},
			"holds 2 Pascal VOC data sets (VOC2007, VOC2012): name one"},
		"VOC cut": {map[string][]byte{"JPEGImages/1.jpg": some, "ImageSets/Main/train.txt": []byte("1\n2")},
			"1 of the 2 photographs that ImageSets/Main lists are not in JPEGImages"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Find(tree(t, c.files), 0.1, 0); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
	if _, err := Find(filepath.Join(t.TempDir(), "nowhere"), 0, 0); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("nowhere: %v", err)
	}
	file := filepath.Join(t.TempDir(), "a.jpg")
	put(t, file, some)
	if _, err := Find(file, 0, 0); err == nil || !strings.Contains(err.Error(), "name the folder") {
		t.Errorf("a file: %v", err)
	}
	if _, err := Find(t.TempDir(), 1, 0); err == nil || !strings.Contains(err.Error(), "held out") {
		t.Errorf("all held out: %v", err)
	}
}

// A share of each class is held out; which one depends on the seed and the paths alone.
func TestHoldOut(t *testing.T) {
	root := tree(t, pictures(pictures(map[string][]byte{}, "a", 20), "b", 40))
	held := func(seed uint64) (names []string, byClass [2]int) {
		s, err := Find(root, 0.1, seed)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range s.Photos {
			if p.Split == Val {
				names = append(names, p.Path)
				byClass[p.Class]++
			}
		}
		return names, byClass
	}
	first, byClass := held(0)
	if byClass != [2]int{2, 4} {
		t.Errorf("%v of 20 and 40 are held out, want 2 and 4", byClass)
	}
	if again, _ := held(0); !slices.Equal(first, again) {
		t.Error("the same seed holds out others")
	}
	if other, _ := held(1); slices.Equal(first, other) {
		t.Error("another seed holds out the same")
	}
	// One more photograph moves at most one.
	put(t, filepath.Join(root, "b", "new.jpg"), picture(t, 99))
	again, _ := held(0)
	if moved := len(slices.DeleteFunc(again, func(n string) bool { return slices.Contains(first, n) })); moved > 1 {
		t.Errorf("%d others are held out", moved)
	}
}

func TestLinks(t *testing.T) {
	outside := tree(t, pictures(map[string][]byte{}, "x", 2))
	root := tree(t, pictures(map[string][]byte{}, "a", 2))
	for name, target := range map[string]string{"round": ".", "a/up": "..", "b": filepath.Join(outside, "x"),
		"again": filepath.Join(outside, "x"), "broken.jpg": "nowhere"} {
		if err := os.Symlink(target, filepath.Join(root, name)); err != nil {
			t.Skip("no links here: ", err)
		}
	}
	s := find(t, root)
	if got := listing(s); len(got) != 4 || len(s.Notes) != 1 || !strings.Contains(s.Notes[0], "broken.jpg") {
		t.Errorf("found %q, notes %q", got, s.Notes)
	}
}

// small makes shards of three photographs of 20 x 16 pixels.
func small(t *testing.T) Options {
	t.Helper()
	o := DefaultOptions()
	o.Size = [2]int{20, 16}
	was := shardBytes
	shardBytes = 3 * o.bytes()
	t.Cleanup(func() { shardBytes = was })
	return o
}

func prepare(t testing.TB, set *Set, dir string, o Options) *Summary {
	t.Helper()
	s, err := Prepare(t.Context(), set, dir, o, nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func open(t testing.TB, dir string) *Store {
	t.Helper()
	s, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// contents are all files of a folder, by name.
func contents(t testing.TB, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() == atomicfile.SumsFile {
			return err
		}
		data, err := os.ReadFile(path)
		name, _ := filepath.Rel(dir, path)
		files[filepath.ToSlash(name)] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// A store gives the pixels that the reader gives, with class, side and path, and their mean.
func TestStore(t *testing.T) {
	o := small(t)
	root := tree(t, pictures(pictures(map[string][]byte{}, "a", 10), "b", 10))
	set := find(t, root)
	dir := t.TempDir()
	summary := prepare(t, set, dir, o)
	s := open(t, dir)
	if s.Len() != 20 || summary.Prepared != 20 || summary.Kept != 0 || summary.Sides[Val] != 2 ||
		s.Fingerprint() != summary.Fingerprint || !slices.Equal(s.Classes(), []string{"a", "b"}) {
		t.Errorf("%d photographs, classes %v, %+v", s.Len(), s.Classes(), summary)
	}
	var sums [3]float64
	n := 0.0
	for k := range s.Len() {
		p, err := photo.Read(filepath.Join(root, s.Name(k)))
		if err != nil {
			t.Fatal(err)
		}
		want := make([]byte, o.bytes())
		photo.NewResizer(20, 16, photo.Warp).Resize(want, p)
		got, err := s.At(k)
		if err != nil || !bytes.Equal(got, want) {
			t.Fatalf("%s: other pixels (%v)", s.Name(k), err)
		}
		if r := s.Record(k); r.Width != p.Width || r.Height != p.Height ||
			s.Label(k) != map[byte]int{'a': 0, 'b': 1}[s.Name(k)[0]] || s.Split(k) != set.Photos[k].Split {
			t.Errorf("%+v", r)
		}
		if s.Split(k) == Train {
			for at, v := range got {
				sums[at%3] += float64(v)
			}
			n += float64(len(got) / 3)
		}
	}
	for c, mean := range s.Mean() {
		if math.Abs(mean-sums[c]/n) > 1e-9 {
			t.Errorf("mean of colour %d is %v, want %v", c, mean, sums[c]/n)
		}
	}
	if err := s.Verify(); err != nil {
		t.Error(err)
	}
}

func TestColourSums(t *testing.T) {
	for _, n := range []int{0, 1, 7, 8, 9, 2047, 2048, 2049, 65025} {
		pixels := make([]byte, 3*n)
		var want [3]uint64
		for at := range pixels {
			pixels[at] = byte(at * at >> 3)
			if n == 2049 {
				pixels[at] = 255
			}
			want[at%3] += uint64(pixels[at])
		}
		if got := colourSums(pixels); got != want {
			t.Errorf("%d pixels: %v, want %v", n, got, want)
		}
	}
}

// The same photographs and settings give the same bytes, whatever the workers and wherever the
// photographs lie. Times of files are in the shards' records only.
func TestPrepareRepeats(t *testing.T) {
	o := small(t)
	files := pictures(map[string][]byte{}, "a", 11)
	var first map[string]string
	for _, workers := range []int{1, 3} {
		o.Workers = workers
		dir := t.TempDir()
		prepare(t, find(t, tree(t, files)), dir, o)
		got := contents(t, dir)
		for name := range got {
			if strings.HasPrefix(name, shardsFolder) && strings.HasSuffix(name, ".json") {
				delete(got, name)
			}
		}
		if first == nil {
			first = got
		}
		if d := cmp.Diff(first, got); d != "" {
			t.Errorf("%d workers: %s", workers, d)
		}
	}
	if len(first) != 5 {
		t.Errorf("%d files, want an index and four shards", len(first))
	}
}

// A preparation that is interrupted leaves whole shards and no index. The next run keeps them, and
// ends with the bytes of one that was left alone.
func TestResume(t *testing.T) {
	o := small(t)
	o.Workers = 1
	set := find(t, tree(t, pictures(map[string][]byte{}, "a", 11)))
	whole, dir := t.TempDir(), t.TempDir()
	prepare(t, set, whole, o)
	ctx, cancel := context.WithCancel(t.Context())
	n := 0
	summary, err := Prepare(ctx, set, dir, o, func(Result) {
		if n++; n == 7 { // within the third shard
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) || summary.Prepared != 7 {
		t.Errorf("%v, %+v", err, summary)
	}
	if _, err := Open(dir); !errors.Is(err, ErrNotPrepared) {
		t.Errorf("half a store is open: %v", err)
	}
	left := contents(t, dir)
	if len(left) != 4 {
		t.Errorf("%d files are left, want two shards with their records", len(left))
	}
	for _, name := range []string{filepath.Join(shardsFolder, ".00002.rgb.123.tmp"), ".index.json.123.tmp"} {
		put(t, filepath.Join(dir, name), []byte("of a run that was killed"))
	}
	if summary := prepare(t, set, dir, o); summary.Kept != 6 || summary.Prepared != 5 {
		t.Errorf("%+v", summary)
	}
	if d := cmp.Diff(contents(t, whole), contents(t, dir)); d != "" {
		t.Error(d)
	}
	if summary := prepare(t, set, dir, o); summary.Kept != 11 || summary.Prepared != 0 {
		t.Errorf("the third run: %+v", summary)
	}
}

// A shard for which there is no room costs nothing of what was prepared before.
func TestNoRoomForAShard(t *testing.T) {
	dir := t.TempDir() // where there is no folder for shards
	s := &shards{dir: dir}
	err := s.write(0, shardRecord{}, []byte("pixels"), func() error {
		t.Error("the earlier index is given up for a shard that was not written")
		return nil
	})
	if !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	put(t, shardFile(dir, 0, "rgb"), []byte("before"))
	put(t, shardFile(dir, 0, "json"), []byte("before"))
	begun := errors.New("begun")
	if err := s.write(0, shardRecord{}, []byte("pixels"), func() error { return begun }); !errors.Is(err, begun) {
		t.Error(err)
	}
	for path, data := range contents(t, dir) {
		if data != "before" {
			t.Errorf("%s has changed", path)
		}
	}
}

// Files that have changed are decoded again, with the others of their shard; other settings change
// all; shards that are no longer needed go.
func TestChanges(t *testing.T) {
	o := small(t)
	root := tree(t, pictures(map[string][]byte{}, "a", 11))
	dir := t.TempDir()
	before := prepare(t, find(t, root), dir, o)
	put(t, filepath.Join(root, "a", "004.jpg"), picture(t, 77))
	after := prepare(t, find(t, root), dir, o)
	if after.Kept != 8 || after.Prepared != 3 || after.Fingerprint == before.Fingerprint {
		t.Errorf("after a change: %+v", after)
	}
	o.Fit = "crop"
	if _, err := Prepare(t.Context(), find(t, root), dir, o, nil); err == nil ||
		!strings.Contains(err.Error(), "their fit is warp, and is to be crop") {
		t.Errorf("another fit replaces what is there: %v", err)
	}
	other := tree(t, pictures(map[string][]byte{}, "b", 3))
	o.Fit = "warp"
	if _, err := Prepare(t.Context(), find(t, other), dir, o, nil); err == nil ||
		!strings.Contains(err.Error(), "none of them is in ") {
		t.Errorf("other photographs replace those that are there: %v", err)
	}
	o.Fit, o.Force = "crop", true
	if s := prepare(t, find(t, root), dir, o); s.Prepared != 11 {
		t.Errorf("another fit: %+v", s)
	}
	for k := 5; k < 11; k++ {
		if err := os.Remove(filepath.Join(root, "a", fmt.Sprintf("%03d.jpg", k))); err != nil {
			t.Fatal(err)
		}
	}
	prepare(t, find(t, root), dir, o)
	if got := contents(t, dir); len(got) != 5 || open(t, dir).Len() != 5 {
		t.Errorf("%d files", len(got))
	}
	s := open(t, dir)
	shard := filepath.Join(dir, shardsFolder, "00001.rgb")
	data, err := os.ReadFile(shard)
	if err != nil {
		t.Fatal(err)
	}
	data[5] ^= 1
	put(t, shard, data)
	if err := s.Verify(); err == nil || !strings.Contains(err.Error(), "have another digest") {
		t.Errorf("a damaged shard: %v", err)
	}
	put(t, shard, data[:10])
	if _, err := Open(dir); err == nil ||
		!strings.Contains(err.Error(), "00001.rgb has 10 bytes, not 1920: run voxsaw 2d prepare again") {
		t.Errorf("a short shard: %v", err)
	}
	if s := prepare(t, find(t, root), dir, o); s.Prepared != 2 {
		t.Errorf("the short shard: %+v", s)
	}
}

// Bad files are skipped, named and counted; when one is mended, it is taken.
func TestBadFiles(t *testing.T) {
	o := small(t)
	good := picture(t, 0)
	files := pictures(map[string][]byte{}, "a", 40)
	files["a/cut.jpg"], files["a/empty.jpg"] = good[:len(good)/2], []byte{}
	root, dir := tree(t, files), t.TempDir()
	set := find(t, root)
	summary := prepare(t, set, dir, o)
	want := []Failure{{"a/cut.jpg", "the JPEG is cut off: copy or download it again"},
		{"a/empty.jpg", "the file is empty: copy or download it again"}}
	if d := cmp.Diff(want, summary.Failed); d != "" || summary.Prepared != 40 || open(t, dir).Len() != 40 {
		t.Errorf("%+v\n%s", summary, d)
	}
	if err := open(t, dir).Verify(); err != nil {
		t.Error(err)
	}
	if again := prepare(t, set, dir, o); again.Prepared != 0 || again.Kept != 40 || len(again.Failed) != 2 {
		t.Errorf("a second run: %+v", again)
	}
	put(t, filepath.Join(root, "a", "cut.jpg"), good)
	if mended := prepare(t, find(t, root), dir, o); len(mended.Failed) != 1 || mended.Prepared+mended.Kept != 41 {
		t.Errorf("mended: %+v", mended)
	}
	for n, bad := range []string{"version https://git-lfs.github.com/spec/v1\n", "<html>", "GIF89a"} {
		put(t, filepath.Join(root, "a", fmt.Sprintf("bad-%d.jpg", n)), []byte(bad))
	}
	_, err := Prepare(t.Context(), find(t, root), dir, o, nil)
	if err == nil || !strings.Contains(err.Error(), "more than 5 % of 45 photographs cannot be read (a/") ||
		strings.Contains(err.Error(), "\n") {
		t.Errorf("four of 45 are bad: %v", err)
	}
}

// A photograph on two sides of a split is left out of the one that is held out.
func TestSamePhotographOnBothSides(t *testing.T) {
	o := small(t)
	same, other := picture(t, 71), picture(t, 72)
	root := tree(t, map[string][]byte{
		"train/a/1.jpg": same, "train/a/twice.jpg": same, "train/b/2.jpg": nil, "val/a/1.jpg": same,
		"val/b/4.jpg": other, "test/a/5.jpg": other, "test/a/6.jpg": nil,
	})
	dir := t.TempDir()
	summary := prepare(t, find(t, root), dir, o)
	want := []Duplicate{{"test/a/5.jpg", "val/b/4.jpg"}, {"val/a/1.jpg", "train/a/1.jpg"}}
	if d := cmp.Diff(want, summary.LeftOut); d != "" || summary.Repeated != 1 {
		t.Errorf("%+v\n%s", summary, d)
	}
	s := open(t, dir)
	var names []string
	for k := range s.Len() {
		names = append(names, s.Name(k))
		if s.Record(k).Digest == "" {
			t.Error("no digest")
		}
	}
	if d := cmp.Diff([]string{"test/a/6.jpg", "train/a/1.jpg", "train/a/twice.jpg", "train/b/2.jpg", "val/b/4.jpg"},
		names); d != "" {
		t.Error(d)
	}
}

// Folders of somebody else are not written into.
func TestForeignFolders(t *testing.T) {
	o := small(t)
	root := tree(t, pictures(map[string][]byte{}, "a", 2))
	set := find(t, root)
	for name, file := range map[string]string{"index": indexName, "shard": "shards/mine.rgb"} {
		dir := t.TempDir()
		put(t, filepath.Join(dir, file), []byte(`{"version": 1}`))
		if _, err := Prepare(t.Context(), set, dir, o, nil); err == nil ||
			!strings.Contains(err.Error(), "is no part of prepared photographs") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Prepare(t.Context(), set, root, o, nil); err == nil ||
		!strings.Contains(err.Error(), "choose another") {
		t.Errorf("into the photographs: %v", err)
	}
	dir := t.TempDir()
	for text, want := range map[string]string{"": "index.json is damaged", `{"version": 9}`: "format 9",
		`{"version": 1, "size": [20, 16], "fit": "warp"}`:                                              "there are no photographs in it",
		`{"version": 1, "size": [20, 16], "fit": "warp", "photos": [{"path": "a", "split": "train"}]}`: "a is in no shard"} {
		put(t, filepath.Join(dir, indexName), []byte(text))
		if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), want) ||
			!strings.Contains(err.Error(), "voxsaw 2d prepare again") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestMachine(t *testing.T) {
	for _, err := range []error{syscall.ENOSPC, &os.PathError{Op: "open", Path: "x", Err: syscall.EMFILE},
		fmt.Errorf("x: %w", syscall.EIO)} {
		if !Machine(err) {
			t.Errorf("%v is the machine's", err)
		}
	}
	for _, err := range []error{nil, os.ErrPermission, os.ErrNotExist, &photo.Problem{What: "x"}} {
		if Machine(err) {
			t.Errorf("%v is the file's", err)
		}
	}
}

func TestOptions(t *testing.T) {
	for name, change := range map[string]func(*Options){
		"size": func(o *Options) { o.Size[1] = 7 }, "large": func(o *Options) { o.Size[0] = 5000 },
		"fit":   func(o *Options) { o.Fit = "stretch" },
		"share": func(o *Options) { o.HoldOut = math.NaN() }, "workers": func(o *Options) { o.Workers = -1 },
	} {
		o := DefaultOptions()
		change(&o)
		if o.Check() == nil {
			t.Errorf("%s passes", name)
		}
	}
	if err := DefaultOptions().Check(); err != nil {
		t.Error(err)
	}
}
