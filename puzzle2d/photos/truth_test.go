package photos

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// The photographs of ImageNet's flat folder val get their classes from each form of the ground
// truth, and stay without where there is none, with a note.
func TestGroundTruthOfFlatVal(t *testing.T) {
	some := picture(t, 1)
	val := func(n int) string { return fmt.Sprintf("val/ILSVRC2012_val_%08d.JPEG", n) }
	flat := func(more map[string]string) map[string][]byte {
		files := map[string][]byte{"train/n01440764/1.JPEG": some, "train/n02119789/2.JPEG": some, val(1): some,
			val(2): some, val(3): some}
		for name, text := range more {
			files[name] = []byte(text)
		}
		return files
	}
	const kit = "ILSVRC2012_devkit_t12/data/"
	const byNumber = "n02119789 1 kit_fox\nn02100735 2 English_setter\nn01440764 3 tench\n"
	// numbers 3, 1 and 2 of the kit: tench, kit fox, and a setter, which is not trained on
	told, none := []string{"n01440764", "n02119789", "-"}, []string{"-", "-", "-"}
	withoutClass := "3 of the 3 photographs in the folder val have no class, so that " +
		"nothing can be validated by them that needs one"
	for name, c := range map[string]struct {
		files map[string][]byte
		want  []string // of the photographs in val
		notes []string
	}{
		"development kit": {flat(map[string]string{kit + truthIDs: "3\n1\n2\n", kit + metaMap: byNumber}), told,
			[]string{"the classes of the folder val are those of " + kit + truthIDs,
				"1 of 3 photographs of val are of classes that train does not have"}},
		"line ends of Windows": {flat(map[string]string{truthIDs: "3\r\n1\r\n2\r\n", metaMap: byNumber}), told,
			[]string{"those of " + truthIDs}},
		"synsets in order": {flat(map[string]string{truthSynsets: "n01440764\nn02119789\nn02100735\n"}), told,
			[]string{"those of " + truthSynsets}},
		"Kaggle": {flat(map[string]string{truthKaggle: "ImageId,PredictionString\nILSVRC2012_val_00000002,n02119789 " +
			"85 1 499 272 \nILSVRC2012_val_00000001,n01440764 1 1 2 2 n01440764 3 3 4 4 " +
			"\nILSVRC2012_val_00000003,n02100735 1 1 2 2 \n"}), told, []string{"those of " + truthKaggle}},
		"Caffe": {flat(map[string]string{truthCaffe: "ILSVRC2012_val_00000001.JPEG " +
			"0\nILSVRC2012_val_00000002.JPEG 2\nILSVRC2012_val_00000003.JPEG 1\n",
			metaSynsets: "n01440764\nn02100735\nn02119789\n"}), told, []string{"those of " + truthCaffe}},
		"Caffe without synsets": {flat(map[string]string{truthCaffe: "ILSVRC2012_val_00000001.JPEG 0\n"}), none,
			[]string{withoutClass}},
		"other val.txt": {flat(map[string]string{truthCaffe: "ILSVRC2012_val_00000001 1\n",
			metaSynsets: "n01440764\nn02119789\n"}), none, []string{withoutClass}},
		"numbers alone": {flat(map[string]string{truthIDs: "3\n1\n2\n"}), none,
			[]string{truthIDs + " has numbers, and nothing says which synsets they stand for", withoutClass}},
		"two forms that agree": {flat(map[string]string{truthKaggle: "ILSVRC2012_val_00000002,n02119789 85 1 499 272\n",
			truthSynsets: "n02100735\nn02119789\nn02100735\n", truthIDs: "3\n"}), []string{"-", "n02119789", "-"},
			[]string{"those of " + truthKaggle}},
		"nothing": {flat(nil), none, []string{withoutClass, "lay the ground truth into the data set's folder: " +
			truthIDs + " with " + metaMap}},
		"a folder in val": {map[string][]byte{"train/n01440764/1.JPEG": some, "train/n02119789/2.JPEG": some,
			"val/images/ILSVRC2012_val_00000001.JPEG": some, "val/images/ILSVRC2012_val_00000002.JPEG": some,
			truthSynsets: []byte("n01440764\nn02119789\n")}, []string{"n01440764", "n02119789"}, nil},
		"folders": {map[string][]byte{"train/n01440764/1.JPEG": some, "train/n02119789/2.JPEG": some,
			"val/n02119789/ILSVRC2012_val_00000001.JPEG": some, truthSynsets: []byte("n01440764\n")},
			[]string{"n02119789"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := Find(tree(t, c.files), 0, 0)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, p := range s.Photos {
				if p.Split == Val && p.Class == Unlabelled {
					got = append(got, "-")
				} else if p.Split == Val {
					got = append(got, s.Classes[p.Class])
				}
			}
			if !slices.Equal(got, c.want) || !slices.Equal(s.Classes, []string{"n01440764", "n02119789"}) {
				t.Errorf("classes %v, want %v, of %v", got, c.want, s.Classes)
			}
			for _, want := range c.notes {
				if !slices.ContainsFunc(s.Notes, func(note string) bool { return strings.Contains(note, want) }) {
					t.Errorf("no note %q in %q", want, s.Notes)
				}
			}
		})
	}
	for want, files := range map[string]map[string]string{
		"has 2 lines, and val/ILSVRC2012_val_00000003.JPEG is number 3: it is of other photographs": {
			truthSynsets: "n01440764\nn02119789\n",
		},
		`line 2: "7" is no number of a synset`: {truthIDs: "3\n7\n2\n", metaMap: byNumber},
		truthKaggle + " and " + truthSynsets +
			": val/ILSVRC2012_val_00000002.JPEG is of n02119789 in the one, of n01440764 in the other": {
			truthKaggle:  "ILSVRC2012_val_00000002,n02119789 85 1 499 272\n",
			truthSynsets: "n01440764\nn01440764\nn01440764\n"},
		metaMap + ", line 1: want SYNSET NUMBER NAME": {truthIDs: "3\n1\n2\n", metaMap: "synsets\n"},
	} {
		if _, err := Find(tree(t, flat(files)), 0, 0); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}
