package standin

import (
	"strings"
	"testing"
)

func TestWhat(t *testing.T) {
	// as Git LFS writes it: https://github.com/git-lfs/git-lfs/blob/main/docs/spec.md
	const pointer = "version https://git-lfs.github.com/spec/v1\n" +
		"oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 12345\n"
	for start, want := range map[string]string{
		pointer:            "is a pointer of Git LFS, not the file itself: git lfs pull",
		"\ufeff" + pointer: "is a pointer of Git LFS",
		"/annex/objects/MD5E-s1--c4ca4238a0b923820dcc509a6f75849b.nii.gz\n":       "is a pointer of git-annex",
		"<!DOCTYPE html>\n<html><head>\n<title>Sign in &middot;\n GitHub</title>": `is a web page ("Sign in &middot; GitHub"), not`,
		"\n\n  <!-- saved -->\n<HTML lang=de>\x00":                                "is a web page, not",
		"\xef\xbb\xbf<html>": "is a web page, not",
		"<head><title>\x1b[31m\"Ouch\u202e" +
			strings.Repeat("x", 900): `is a web page ("[31m Ouch xxxx`,
		"<!doctype HTML PUBLIC \"-//W3C//DTD HTML 4.01//EN\">":                   "is a web page, not",
		"<?xml version=\"1.0\"?>\n<html xmlns=\"http://www.w3.org/1999/xhtml\">": "is a web page, not",
		"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>AccessDenied</Code></Error>": "" +
			"is XML, such as a server's error message",
	} {
		if got := What([]byte(start)); !strings.HasPrefix(got, want) || strings.ContainsAny(got, "\n\x1b\u202e") ||
			len(got) > 200 {
			t.Errorf("%.60q: %q, want %q", start, got, want)
		}
	}
	for _, start := range []string{
		"", "{}", "NRRD0004\n", "\x1f\x8b\x08", "5c\x01\x00\x00", "<", "<htmlish>", "<!--", "<scan>",
		"/annex/objects", "version 3", strings.Repeat(" ", 2000) + "<html>", strings.Repeat("\x00", 132) + "DICM<html>",
	} {
		if got := What([]byte(start)); got != "" {
			t.Errorf("%.60q: %q", start, got)
		}
	}
}

// JSON is a stand-in only for what is no JSON itself.
func TestInstead(t *testing.T) {
	for _, start := range []string{`{"error": "not found"}`, "\ufeff {\n\"a\":1", "{}", `[{"message": 1}]`, `["a"`} {
		if got := Instead([]byte(start)); !strings.HasPrefix(got, "is JSON, such as") || What([]byte(start)) != "" {
			t.Errorf("%q: %q", start, got)
		}
	}
	for _, start := range []string{
		"", "{", "{a", "[", "NRRD0004\n", "5c\x01\x00\x00", "ObjectType = Image",
		"\x10\x00\x00\x00\x00\x00\x00\x00{\"a\":1}", // safetensors
	} {
		if got := Instead([]byte(start)); got != "" {
			t.Errorf("%q: %q", start, got)
		}
	}
	if got := Instead([]byte("<html>")); !strings.HasPrefix(got, "is a web page") {
		t.Error(got)
	}
}
