package photos

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
)

// index is the content of index.json.
type index struct {
	Version     int         `json:"version"`
	Size        [2]int      `json:"size"`
	Fit         string      `json:"fit"`
	JPEG        int         `json:"jpeg,omitempty"` // quality; 0: the shards hold pixels
	Layout      string      `json:"layout"`
	Fingerprint string      `json:"fingerprint"`
	Mean        [3]float64  `json:"mean"`
	Classes     []string    `json:"classes"`
	Shards      []shardInfo `json:"shards"`
	LeftOut     []Duplicate `json:"left_out"`
	Failed      []Failure   `json:"failed"`
	Photos      []Record    `json:"photos"`
}

type shardInfo struct {
	Photos int    `json:"photos"`
	Digest string `json:"digest"`
	Bytes  int64  `json:"bytes,omitempty"` // of JPEGs
}

// A Record is what is known of a prepared photograph.
type Record struct {
	Path    string   `json:"path"`  // of the file, below the folder of photographs
	Class   int      `json:"class"` // or Unlabelled
	Split   string   `json:"split"` // Train, Val or Test
	Width   int      `json:"width"` // of the original, in pixels
	Height  int      `json:"height"`
	Digest  string   `json:"digest"` // of the prepared pixels, or of the JPEG that they are kept as
	Objects []Object `json:"objects,omitempty"`
	Shard   int      `json:"shard"` // where its pixels are
	Place   int      `json:"place"` // its number among the photographs there
	// Begin and Bytes say where its JPEG lies in the shard; 0 where pixels are kept.
	Begin int64 `json:"begin,omitempty"`
	Bytes int   `json:"bytes,omitempty"`
}

// newIndex describes the shards. A photograph that a side of the split before its own has, too, is
// left out: train comes before val, and val before test.
func newIndex(set *Set, o Options, records []shardRecord, summary *Summary) index {
	i := index{
		Version: formatVersion, Size: o.Size, Fit: o.Fit, JPEG: o.JPEG, Layout: set.Layout, Classes: set.Classes,
		LeftOut: []Duplicate{}, Failed: summary.Failed, Photos: []Record{},
	}
	var sums [][3]uint64
	at := 0
	for shard, record := range records {
		var digests []string
		begin := int64(0)
		for _, f := range record.Files {
			found := set.Photos[at]
			at++
			if f.Error != "" {
				continue
			}
			i.Photos = append(i.Photos, Record{
				Path: f.Path, Class: found.Class, Split: found.Split, Width: f.Width, Height: f.Height,
				Digest:  f.Digest,
				Objects: found.Objects, Shard: shard, Place: len(digests), Begin: begin, Bytes: f.Stored,
			})
			begin += int64(f.Stored)
			sums = append(sums, f.Sums)
			digests = append(digests, f.Digest)
		}
		i.Shards = append(i.Shards, shardInfo{len(digests), shardDigest(digests), begin})
	}
	i.Mean = meanColour(i.Photos, sums, o)
	i.leaveOut(summary)
	for _, r := range i.Photos {
		summary.Sides[r.Split]++
	}
	if i.Classes == nil {
		i.Classes = []string{}
	}
	if i.Failed == nil {
		i.Failed = []Failure{}
	}
	i.Fingerprint = i.fingerprint()
	return i
}

// meanColour is that of the training side.
func meanColour(records []Record, sums [][3]uint64, o Options) (mean [3]float64) {
	var total [3]uint64
	n := 0
	for k, r := range records {
		if r.Split == Train {
			n++
			for c := range total {
				total[c] += sums[k][c]
			}
		}
	}
	for c := range mean {
		mean[c] = float64(total[c]) / float64(max(n*o.Size[0]*o.Size[1], 1))
	}
	return mean
}

// leaveOut takes photographs out that are on a side before their own.
func (i *index) leaveOut(summary *Summary) {
	order := map[string]int{Train: 0, Val: 1, Test: 2}
	first := map[string]Record{} // by digest, of the first side
	for _, r := range i.Photos {
		if other, seen := first[r.Digest]; !seen || order[r.Split] < order[other.Split] {
			first[r.Digest] = r
		}
	}
	i.Photos = slices.DeleteFunc(i.Photos, func(r Record) bool {
		switch other := first[r.Digest]; {
		case other.Path == r.Path:
		case other.Split == r.Split:
			summary.Repeated++
		default:
			i.LeftOut = append(i.LeftOut, Duplicate{r.Path, other.Path})
			return true
		}
		return false
	})
	slices.SortFunc(i.LeftOut, func(a, b Duplicate) int { return cmp.Compare(a.Path, b.Path) })
	summary.LeftOut = i.LeftOut
}

// fingerprint covers what a network can see of the photographs, their names, classes and sides.
func (i *index) fingerprint() string {
	h := sha256.New()
	// writing to a hash does not fail, and the types below always encode
	encode := json.NewEncoder(h)
	if encode.Encode([]any{i.Version, i.Size, i.Fit, i.Classes}); i.JPEG > 0 {
		encode.Encode(i.JPEG)
	}
	for _, r := range i.Photos {
		encode.Encode([]any{r.Path, r.Class, r.Split, r.Digest, r.Objects})
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}
