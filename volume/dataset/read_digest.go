package dataset

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/voxsaw/voxsaw/internal/provenance"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

// Digest tells the case's scan from others, whatever it is called: the SHA-256 of its file in
// hexadecimal digits. Of several files, such as those of a DICOM series, it is the SHA-256 of
// theirs, a line each, sorted: neither names nor folders count. Of several channels it is the
// SHA-256 of a heading and a line for each, in their order: what this says of the channel alone,
// and its volume. All files are read.
func (c Case) Digest() (string, error) {
	if len(c.More) == 0 {
		return c.digestOfFiles()
	}
	lines := "channels in order\n"
	for n, channel := range append([]Case{c}, c.More...) {
		channel.More = nil
		if n > 0 && channel.Image == c.Image && channel.Volume > 0 { // the file is read once
			lines += fmt.Sprintf("volume %d\n", channel.Volume)
			continue
		}
		digest, err := channel.digestOfFiles()
		if err != nil {
			return "", err
		}
		lines += fmt.Sprintf("%s volume %d\n", digest, channel.Volume)
	}
	all := sha256.Sum256([]byte(lines))
	return hex.EncodeToString(all[:]), nil
}

// digestOfFiles is the [Case.Digest] of one channel.
func (c Case) digestOfFiles() (string, error) {
	files, err := c.scanFiles()
	if err != nil {
		return "", err
	}
	sums := make([]string, len(files))
	for n, path := range files {
		source, err := prepared.NewSource(path)
		if err != nil {
			return "", err
		}
		sums[n] = source.Hash
	}
	if len(sums) == 1 {
		return sums[0], nil
	}
	slices.Sort(sums)
	all := sha256.Sum256([]byte(strings.Join(sums, "\n") + "\n"))
	return hex.EncodeToString(all[:]), nil
}

// scanFiles are the files that hold the case's scan.
func (c Case) scanFiles() ([]string, error) {
	if c.refused == nil && !c.IsDICOM() {
		c.withoutLabels()
		return c.sourcePaths(), nil
	}
	s, err := c.DICOM()
	if err != nil {
		return nil, err
	}
	files := slices.Clone(s.Files)
	for _, more := range c.More {
		own, err := more.scanFiles()
		if err != nil {
			return nil, err
		}
		files = append(files, own...)
	}
	return slices.Compact(slices.Sorted(slices.Values(files))), nil
}

// madeOfOthers says why a label map was made of other files than the case's scan, "" if it was not;
// known is false where it does not say of which, or the scan cannot be read.
func (c Case) madeOfOthers(path string) (why string, known bool) {
	made := provenance.ScanOf(path)
	if made == "" || c.Image == "" {
		return "", false
	}
	digest, err := c.Digest()
	if err != nil || digest == made {
		return "", err == nil
	}
	return fmt.Sprintf("%s was predicted from other files than %s: from another form of this scan, or from another "+
		"scan", path, c.Image), true
}
