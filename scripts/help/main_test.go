package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The help that programs show is that of the comments.
func TestHelpIsThatOfComments(t *testing.T) {
	root := filepath.Join("..", "..")
	want, err := table(root)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Count(want, "\n") < 100 {
		t.Fatalf("%d comments were found: the search is broken", strings.Count(want, "\n"))
	}
	got, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(file)))
	if err != nil || string(got) != want {
		t.Errorf("%s is not what the comments of fields say (%v): go run ./scripts/help writes it", file, err)
	}
}
