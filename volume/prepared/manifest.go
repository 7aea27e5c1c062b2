package prepared

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/voxsaw/voxsaw/internal/atomicfile"
	"github.com/voxsaw/voxsaw/internal/folders"
	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/smallfile"
	"github.com/voxsaw/voxsaw/volume"
)

// This file: what says which cases a store has. Of few cases, manifest.json has the records. Of
// more than manyCases it names a file with the table of them, with its digest. The manifest is
// renamed into place when all that it names is there.

const (
	// manyCases is the number of cases up to which manifest.json itself has their records, which
	// anybody can read; the table of more is read faster.
	manyCases = 1000
	// tableVersion is the version of a manifest that names a table.
	tableVersion = 2
	tableSuffix  = ".table"
	// maxTable bounds the table, in bytes: a million cases of sixty structures take a third of it.
	maxTable = 4 << 30
)

// manifest is manifest.json. It has Cases or Table.
type manifest struct {
	Version     int                `json:"version"`
	Preparation volume.Preparation `json:"preparation"`
	Fingerprint string             `json:"fingerprint"`
	Series      string             `json:"series,omitempty"` // see [Writer.Series]
	Cases       []Record           `json:"cases,omitempty"`
	Table       *tableFile         `json:"table,omitempty"`
}

// tableFile is where the records lie.
type tableFile struct {
	File   string `json:"file"`
	Cases  int    `json:"cases"`
	SHA256 string `json:"sha256"` // of the preparation, the fingerprint and the file
}

// digest begins the digest of a table, with the rest of the manifest: what follows is the table.
func (m manifest) digest() hash.Hash {
	h := sha256.New()
	json.NewEncoder(h).Encode([]any{m.Preparation, m.Fingerprint}) // a hash takes everything
	return h
}

// write writes the manifest of cases, which are ordered by ID, into a folder. More than many are
// written as a table.
func (m *manifest) write(dir string, cases []Record, many int) error {
	m.Version = formatVersion
	m.Fingerprint = fingerprint(m.Preparation, slices.Values(cases))
	m.Cases = cases
	table := ""
	if len(cases) > many {
		text := encodeTable(slices.Values(cases), len(cases))
		h := m.digest()
		h.Write(text)
		sum := hex.EncodeToString(h.Sum(nil))
		// A name of its own: until the manifest names this table, the old one stays whole.
		table = "cases-" + sum[:16] + tableSuffix
		m.Version, m.Cases, m.Table = tableVersion, nil, &tableFile{table, len(cases), sum}
		if err := atomicfile.WriteBytes(filepath.Join(dir, table), text); err != nil {
			return err
		}
	}
	if err := writeJSON(filepath.Join(dir, manifestName), m); err != nil {
		return err
	}
	return removeTables(dir, table)
}

// seal keeps the digests of what was written: of the records, which have those of the voxels, and
// of the manifest, with its table.
func (m *manifest) seal(dir string, cases []Record) error {
	var records []string
	for _, c := range cases {
		records = append(records, filepath.Base(recordPath(dir, c.ID)))
	}
	if err := atomicfile.Seal(filepath.Join(dir, casesFolder), records...); err != nil {
		return err
	}
	names := []string{manifestName}
	if m.Table != nil {
		names = append(names, m.Table.File)
	}
	return atomicfile.Seal(dir, names...)
}

// removeTables removes the tables in a folder but for one.
func removeTables(dir, but string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if name := e.Name(); strings.HasPrefix(name, "cases-") && strings.HasSuffix(name, tableSuffix) && name != but {
			if err := atomicfile.Remove(filepath.Join(dir, name)); err != nil {
				return err
			}
		}
	}
	return nil
}

// readManifest reads the manifest in a folder, and the table of its cases.
func readManifest(dir string) (m manifest, t *table, err error) {
	damaged := func(format string, args ...any) (manifest, *table, error) {
		return m, nil, fmt.Errorf("%s is damaged (%w): run voxsaw prepare again", manifestName,
			fmt.Errorf(format, args...))
	}
	data, err := smallfile.Read(filepath.Join(dir, manifestName), smallfile.List)
	if err != nil {
		stat, none := os.Stat(dir)
		if errors.Is(err, fs.ErrNotExist) || none == nil && !stat.IsDir() { // a scan, for one
			err = notPrepared(dir)
		}
		return m, nil, err
	}
	if sums, err := atomicfile.Sums(dir); err == nil && sums.Differs(manifestName, data) {
		return damaged("it is not what was written, says %s", atomicfile.SumsFile)
	}
	if err := json.Unmarshal(data, &m); err != nil {
		return damaged("%w", err)
	}
	if m.Version == tableVersion && m.Table != nil {
		t, err = m.readTable(dir)
		if errors.Is(err, errOtherVersion) {
			return m, nil, err
		}
		if err != nil {
			return damaged("%w", err)
		}
		return m, t, nil
	}
	if m.Version != formatVersion {
		return m, nil,
			fmt.Errorf("prepared with format %d, this program reads formats %d and %d: run voxsaw prepare again",
				m.Version, formatVersion, tableVersion)
	}
	for _, r := range m.Cases {
		err := cmp.Or(r.check(), r.checkChannels(m.Preparation))
		if errors.Is(err, errOtherVersion) {
			return m, nil, fmt.Errorf("case %q: %w", r.ID, err)
		}
		if err != nil {
			return damaged("case %q: %w", r.ID, err)
		}
	}
	if err := m.checkFingerprint(slices.Values(m.Cases)); err != nil {
		return damaged("%w", err)
	}
	t, err = parseTable(string(encodeTable(slices.Values(m.Cases), len(m.Cases))))
	if err != nil {
		return damaged("%w", err)
	}
	m.Cases = nil
	return m, t, nil
}

// interruptedError is [ErrNotPrepared] where a preparation has finished some cases and has not come
// to its end.
type interruptedError struct{ cases int }

func (e *interruptedError) Error() string {
	return fmt.Sprintf("voxsaw prepare was interrupted here, or has parts left, after %s: run it again with "+
		"the same command, which goes on from there", numbers.Count(e.cases, "case"))
}

func (e *interruptedError) Is(target error) bool {
	return target == ErrNotPrepared || target == ErrInterrupted
}

// notPrepared says why a folder has no manifest.
func notPrepared(dir string) error {
	entries, err := os.ReadDir(filepath.Join(dir, casesFolder))
	entries = slices.DeleteFunc(entries, func(e fs.DirEntry) bool {
		return e.Name()[0] == '.' || filepath.Ext(e.Name()) != ".json"
	})
	if err != nil || len(entries) == 0 {
		return ErrNotPrepared
	}
	return &interruptedError{len(entries)}
}

// readTable reads the table that the manifest names, and compares it with its digest. The
// fingerprint, which is in the digest, is not worked out again: see [Store.VerifyRecords].
func (m manifest) readTable(dir string) (*table, error) {
	if filepath.Base(m.Table.File) != m.Table.File || !strings.HasSuffix(m.Table.File, tableSuffix) {
		return nil, fmt.Errorf("%q is no file of this folder", m.Table.File)
	}
	path := filepath.Join(dir, m.Table.File)
	f, err := folders.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	stat, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if stat.Size() > maxTable {
		return nil, &smallfile.TooLargeError{Path: path, Size: stat.Size(), Limit: maxTable}
	}
	var text strings.Builder // many records: they are held once
	text.Grow(int(stat.Size()))
	h := m.digest()
	if _, err := io.Copy(io.MultiWriter(&text, h), io.LimitReader(f, maxTable)); err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	if hex.EncodeToString(h.Sum(nil)) != m.Table.SHA256 {
		return nil, fmt.Errorf("%s is not what was written", path)
	}
	t, err := parseTable(text.String())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if t.len() != m.Table.Cases {
		return nil, fmt.Errorf("%s has %d cases, not %d", path, t.len(), m.Table.Cases)
	}
	return t, nil
}

// checkFingerprint compares the fingerprint with that of the cases.
func (m manifest) checkFingerprint(cases iter.Seq[Record]) error {
	if got := fingerprint(m.Preparation, cases); got != m.Fingerprint {
		return fmt.Errorf("its cases have the fingerprint %.12s, not %.12s", got, m.Fingerprint)
	}
	return nil
}

// fingerprint covers what a network can see of the cases, and not where they lay or when.
func fingerprint(p volume.Preparation, cases iter.Seq[Record]) string {
	h := sha256.New()
	// writing to a hash does not fail, and the types below always encode
	encode := json.NewEncoder(h)
	encode.Encode(formatVersion)
	encode.Encode(p)
	for c := range cases {
		counts := c.LabelCounts
		if c.HasLabels && counts == nil { // no foreground, as read from a file
			counts = map[uint16]int{}
		}
		encode.Encode([]any{c.ID, c.Group, c.Grid, c.Original, c.HasLabels, counts, c.Checksum})
		if c.Patient != "" { // who decides about folds
			encode.Encode(c.Patient)
		}
		if c.Predicted { // and that
			encode.Encode("labels predicted")
		}
		if len(c.Undrawn) > 0 { // what is left out of scores
			encode.Encode(c.Undrawn)
		}
		if len(c.Emptied) > 0 { // and that
			encode.Encode(map[string][]uint16{"emptied": c.Emptied})
		}
		if c.Levels != nil { // what lies outside of the scan
			encode.Encode(c.Levels)
		}
		if len(c.More) > 0 {
			encode.Encode(c.More)
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}
