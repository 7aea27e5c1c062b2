package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// FileFlag is the flag that names the YAML file.
const FileFlag = "config"

// Bind makes one flag for every leaf of the struct that cfg points to, with the leaf's current
// value as the default, and the flag --config. It panics where two leaves want the same flag: one
// of them needs a flag tag. Call [Resolve] after the flags were parsed.
func Bind(flags *pflag.FlagSet, cfg any) {
	if flags.Lookup(FileFlag) == nil {
		flags.StringP(FileFlag, "c", "", "YAML `FILE` with these settings; a flag wins over it")
	}
	bind(flags, pointee(cfg), "", "", map[string]string{})
}

func bind(flags *pflag.FlagSet, v reflect.Value, path, prefix string, seen map[string]string) {
	for _, f := range fields(v) {
		where := path + f.key
		if f.flag == "-" {
			continue
		}
		if !isLeaf(f.value.Type()) {
			if f.value.Kind() == reflect.Struct {
				inner := prefix
				if f.flag != "" {
					inner += f.flag + "-"
				}
				bind(flags, f.value, where+".", inner, seen)
			}
			continue
		}
		name := f.flag
		if name == "" {
			name = kebab(f.key)
		}
		name = prefix + name
		if other, taken := seen[name]; taken {
			panic(fmt.Sprintf("config: %s and %s both want the flag --%s: give one a flag tag", other, where, name))
		}
		if flags.Lookup(name) != nil {
			panic(fmt.Sprintf("config: %s wants the flag --%s, which the command has already: give it a flag tag", where, name))
		}
		seen[name] = where
		flag := flags.VarPF(&flagValue{field: f}, name, "", f.usage())
		if f.value.Kind() == reflect.Bool {
			flag.NoOptDefVal = "true"
		}
	}
}

// flagValue is a leaf as pflag sees it. What the user typed is kept, so that it can be put on top
// of a file read later.
type flagValue struct {
	field
	words []string
	given bool
}

func (f *flagValue) Set(text string) error {
	words := split(f.value.Type(), text)
	if f.given && f.value.Kind() == reflect.Slice {
		words = append(slices.Clone(f.words), words...) // a list may be given piece by piece
	}
	if err := f.set(words); err != nil {
		return err
	}
	f.words, f.given = words, true
	return nil
}

func (f *flagValue) String() string {
	if f == nil || !f.value.IsValid() {
		return ""
	}
	return leafText(f.value)
}

func (f *flagValue) Type() string { return kindName(f.value.Type()) }

// Resolve gives cfg its final values after the flags it was bound to were parsed: it reads the file
// named by --config, if any, and puts the flags that the user set back on top.
func Resolve(flags *pflag.FlagSet, cfg any) error {
	pointee(cfg)
	if file := flags.Lookup(FileFlag); file != nil && file.Value.String() != "" {
		if err := Load(file.Value.String(), cfg); err != nil {
			return err
		}
	}
	var failed error
	flags.Visit(func(flag *pflag.Flag) {
		if v, ok := flag.Value.(*flagValue); ok && v.given && failed == nil {
			if err := v.set(v.words); err != nil {
				failed = fmt.Errorf("--%s %s: %w", flag.Name, strings.Join(v.words, ","), err)
			}
		}
	})
	return failed
}
