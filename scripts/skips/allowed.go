package main

import (
	"os"
	"regexp"
	"strings"
)

// A row allows a test to be skipped.
type row struct {
	pkg     string // without the module's path
	test    *regexp.Regexp
	reason  *regexp.Regexp
	instead string // where it runs, or why it cannot
	unless  func() bool
}

var rows = []row{
	{
		"internal/folders", regexp.MustCompile(`^TestWalkGoesOnBehindALockedFolder$`), regexp.MustCompile(`root`),
		"root may read everything; .ci/run runs it as another user", nil,
	},
	{
		"volume/dataset", regexp.MustCompile(`^TestUnreadableFileIsOneEntry$`), regexp.MustCompile(`root`),
		"root may read everything; .ci/run runs it as another user", nil,
	},
	{
		"internal/crashtest", regexp.MustCompile(`^TestTorture/(Forgets|Power)`),
		regexp.MustCompile(`mounting a loop device needs root`),
		"only root may mount the file system whose power is cut", func() bool { return os.Geteuid() == 0 },
	},
	{
		"", regexp.MustCompile(``), regexp.MustCompile(`VOXSAW_DATA`),
		"there are no real scans here", func() bool { return os.Getenv("VOXSAW_DATA") != "" },
	},
}

const module = "github.com/voxsaw/voxsaw/"

// allowed says why a test may be skipped; nothing where it may not.
func allowed(s skip) string {
	for _, r := range rows {
		if r.pkg != "" && r.pkg != strings.TrimPrefix(s.pkg, module) {
			continue
		}
		if r.unless != nil && r.unless() {
			continue
		}
		if r.test.MatchString(s.name) && r.reason.MatchString(s.reason) {
			return r.instead
		}
	}
	return ""
}
