package main

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"

	"github.com/voxsaw/voxsaw/internal/atomicfile"
)

// writeFile writes a result whole or not at all, and makes the folder that it goes into.
func writeFile(path string, write func(io.Writer) error) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return err
	}
	return atomicfile.Write(path, write)
}

func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}
