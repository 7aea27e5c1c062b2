// Command sbom lists what a Go binary is made of, as a CycloneDX 1.6 document on standard output:
// the program, the version of Go whose standard library is in it, and every module with the sum
// that go.sum has. The same binary gives the same bytes.
//
//	go run ./scripts/sbom voxsaw > voxsaw.cdx.json
//
// It reads what the Go linker wrote into the binary, so that a binary of any system will do. Start
// at [bill].
package main

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: sbom BINARY > FILE")
		os.Exit(2)
	}
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

func run(path string) error {
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return fmt.Errorf("%w: is it a Go program?", err)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	text, err := json.MarshalIndent(bill(info, filepath.Base(path), sha256.Sum256(content)), "", "  ")
	if err != nil {
		return err
	}
	_, err = os.Stdout.Write(append(text, '\n'))
	return err
}

// document is the part of CycloneDX 1.6 that is used here:
// https://cyclonedx.org/docs/1.6/json/
type document struct {
	BOMFormat    string      `json:"bomFormat"`
	SpecVersion  string      `json:"specVersion"`
	SerialNumber string      `json:"serialNumber"`
	Version      int         `json:"version"`
	Metadata     metadata    `json:"metadata"`
	Components   []component `json:"components"`
}

type metadata struct {
	Component component `json:"component"`
}

type component struct {
	Type       string     `json:"type"`
	Ref        string     `json:"bom-ref"`
	Name       string     `json:"name"`
	Version    string     `json:"version"`
	Hashes     []hash     `json:"hashes,omitempty"`
	PURL       string     `json:"purl"`
	Properties []property `json:"properties,omitempty"`
}

type hash struct {
	Algorithm string `json:"alg"`
	Content   string `json:"content"`
}

type property struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// bill describes a binary by its build information.
func bill(info *debug.BuildInfo, name string, digest [sha256.Size]byte) document {
	program := module(&info.Main)
	program.Type, program.Hashes = "application", []hash{{"SHA-256", fmt.Sprintf("%x", digest)}}
	program.Properties = append(program.Properties, property{"file", name})
	for _, s := range info.Settings {
		program.Properties = append(program.Properties, property{"build:" + s.Key, s.Value})
	}
	// The number says which document this is. It comes from the binary, so that it stays the same:
	// a UUID of version 8, whose other bits are free (RFC 9562).
	id := digest
	id[6], id[8] = id[6]&0x0f|0x80, id[8]&0x3f|0x80
	d := document{
		BOMFormat: "CycloneDX", SpecVersion: "1.6", Version: 1,
		SerialNumber: fmt.Sprintf("urn:uuid:%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:16]),
		Metadata:     metadata{program},
	}
	d.Components = append(d.Components, library("stdlib", strings.TrimPrefix(info.GoVersion, "go")))
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		d.Components = append(d.Components, module(m))
	}
	return d
}

// module describes a module of the binary.
func module(m *debug.Module) component {
	c := library(m.Path, m.Version)
	if m.Sum != "" {
		c.Properties = []property{{"go.sum", m.Sum}}
	}
	return c
}

func library(path, version string) component {
	purl := "pkg:golang/" + path + "@" + url.QueryEscape(version)
	return component{Type: "library", Ref: purl, Name: path, Version: version, PURL: purl}
}
