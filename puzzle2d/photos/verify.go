package photos

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/voxsaw/voxsaw/internal/smallfile"
)

// IsPrepared says whether a folder holds photographs that [Prepare] has prepared, whole or not.
func IsPrepared(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, indexName))
	folder, other := os.Stat(filepath.Join(dir, shardsFolder))
	return err == nil && other == nil && folder.IsDir()
}

// Verify reads all pixels that [Prepare] has written and compares them with their digests. It says
// what is wrong, a line for each shard; nothing where all is as it was written. The end of ctx is
// the error.
func Verify(ctx context.Context, dir string) (problems []string, err error) {
	i, err := readIndex(dir)
	if err != nil {
		return []string{fmt.Sprintf("opening prepared photographs in %s: %v", dir, err)}, nil
	}
	for shard, want := range i.Shards {
		if ctx.Err() != nil {
			return problems, ctx.Err()
		}
		if err := verifyShard(dir, shard, want, i); err != nil {
			problems = append(problems, fmt.Sprintf("%v: run voxsaw 2d prepare again", err))
		}
	}
	return problems, nil
}

// verifyShard compares a shard with its record, and that with the index.
func verifyShard(dir string, shard int, want shardInfo, i index) error {
	path := shardFile(dir, shard, ext(i.JPEG))
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	got, err := sumShard(f, dir, shard, i)
	if err == nil && got != want.Digest {
		err = fmt.Errorf("%s is not of this %s", shardFile(dir, shard, "json"), indexName)
	}
	return err
}

// sumShard is the digest of a shard, or of a copy of it, which is compared with its record.
func sumShard(from io.Reader, dir string, shard int, i index) (string, error) {
	path := shardFile(dir, shard, "json")
	data, err := smallfile.Read(path, smallfile.List)
	if err != nil {
		return "", err
	}
	var record shardRecord
	if err := json.Unmarshal(data, &record); err != nil {
		return "", fmt.Errorf("%s is damaged: %w", path, err)
	}
	digests, err := record.verify(from, shardFile(dir, shard, ext(i.JPEG)), i.bytes())
	return shardDigest(digests), err
}

// holds says whether a file is what the record says.
func (r shardRecord) holds(path string, bytes int) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	_, err = r.verify(f, path, bytes)
	return err == nil
}

// verify reads a shard's pixels, which are so many bytes for each photograph, or its JPEGs, and
// compares them with the digests, which it returns.
func (r shardRecord) verify(from io.Reader, path string, bytes int) (digests []string, err error) {
	pixels := make([]byte, bytes)
	for _, file := range r.Files {
		if file.Error != "" {
			continue
		}
		if file.Stored < 0 || file.Stored > 2*bytes+4096 {
			return nil, fmt.Errorf("%s: %s is said to have %d bytes", path, file.Path, file.Stored)
		}
		pixels = slices.Grow(pixels[:0], cmp.Or(file.Stored, bytes))[:cmp.Or(file.Stored, bytes)]
		if _, err := io.ReadFull(from, pixels); err != nil {
			return nil, fmt.Errorf("reading %s: %w", path, err)
		}
		if digest(pixels) != file.Digest {
			return nil, fmt.Errorf("%s is not what was prepared: the pixels of %s have another digest", path, file.Path)
		}
		digests = append(digests, file.Digest)
	}
	return digests, nil
}
