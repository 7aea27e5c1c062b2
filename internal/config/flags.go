package config

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// FileFlag is the flag that names the YAML file.
const FileFlag = "config"

// keyAnnotation is where a flag says which key of the file it is.
const keyAnnotation = "voxsaw_key"

// Key is the dotted key of the YAML file that a flag stands for; "" where it is a flag alone.
func Key(flag *pflag.Flag) string {
	if keys := flag.Annotations[keyAnnotation]; len(keys) > 0 {
		return keys[0]
	}
	return ""
}

// Choices lists the words that a flag takes; nil where it is not a choice.
func Choices(flag *pflag.Flag) []string {
	switch v := flag.Value.(type) {
	case *flagValue:
		return v.choice
	case *variantFlag:
		return v.alternatives[0].field.choice
	}
	return nil
}

// A Variant is a setting as one option of a [OneOf] has it.
type Variant struct{ Option, Help, Default string }

// Variants lists a flag's setting option by option, and the dotted key that chooses among these;
// nil where the setting is not of a [OneOf].
func Variants(flag *pflag.Flag) (key string, all []Variant) {
	v, ok := flag.Value.(*variantFlag)
	if !ok {
		return "", nil
	}
	for _, a := range v.alternatives {
		all = append(all, Variant{a.option, a.field.usage(), a.field.text()})
	}
	first := v.alternatives[0]
	return first.path + first.of.key, all
}

// Bind makes one flag for every leaf of the struct that cfg points to, with the leaf's current
// value as the default, and the flag --config. It panics where two leaves want the same flag: one
// of them needs a flag tag. Call [Resolve] after the flags were parsed.
func Bind(flags *pflag.FlagSet, cfg any) {
	if flags.Lookup(FileFlag) == nil {
		flags.VarP(&fileValue{cfg: cfg}, FileFlag, "c", "YAML `FILE` with these settings; a flag wins over it")
	}
	bind(flags, pointee(cfg), "", "", map[string]string{})
}

// fileValue is the path of the YAML file, with the struct that it is read into.
type fileValue struct {
	path string
	cfg  any
}

func (f *fileValue) Set(path string) error { f.path = path; return nil }
func (f *fileValue) String() string        { return f.path }
func (f *fileValue) Type() string          { return "string" }

// TryRead reads a YAML file into the struct that a command's flags are bound to, as [Resolve] does,
// to see whether it is one of that command: its settings are of no use afterwards.
func TryRead(flags *pflag.FlagSet, command, path string) error {
	file, ok := flags.Lookup(FileFlag).Value.(*fileValue)
	if !ok {
		return fmt.Errorf("no settings are bound to --%s", FileFlag)
	}
	return reader{file: path, flags: flags, command: command}.load(file.cfg)
}

// Keys lists the keys of a YAML file, without those in its sections. A file that cannot be read has
// none.
func Keys(path string) (keys []string) {
	node := root(path)
	if node == nil {
		return nil
	}
	values, _, err := reader{file: path}.entries(node, "")
	if err != nil {
		return nil
	}
	for _, e := range values {
		keys = append(keys, e.Key.GetToken().Value)
	}
	return keys
}

// Has says whether the struct that a command's flags are bound to has a dotted key, with any of its
// choices.
func Has(flags *pflag.FlagSet, key string) bool {
	file, ok := flags.Lookup(FileFlag).Value.(*fileValue)
	return ok && hasKey(pointee(file.cfg), strings.Split(key, "."))
}

func hasKey(v reflect.Value, path []string) bool {
	known := fields(v)
	for _, o := range choices(v) {
		for _, option := range o.options {
			known = append(known, fields(pointee(option.Value))...)
		}
	}
	return slices.ContainsFunc(known, func(f field) bool {
		return f.key == path[0] && (len(path) == 1 ||
			f.value.Kind() == reflect.Struct && f.value.Type() != section && hasKey(f.value, path[1:]))
	})
}

func bind(flags *pflag.FlagSet, v reflect.Value, path, prefix string, seen map[string]string) {
	placed := everyChoice(v, path, prefix)
	alternatives := map[string][]alternative{} // of flags that only some options have
	for _, o := range placed {
		o.eachLeaf(func(option, name, where string, f field) {
			alternatives[name] = append(alternatives[name], alternative{o.OneOf, o.path, option, where, f})
		})
	}
	add := func(name, where string, value pflag.Value, usage string, isBool bool) {
		if other, taken := seen[name]; taken {
			panic(fmt.Sprintf("config: %s and %s both want the flag --%s: give one a flag tag", other, where, name))
		}
		if flags.Lookup(name) != nil {
			panic(fmt.Sprintf("config: %s wants the flag --%s, which the command has already: give it a flag tag",
				where, name))
		}
		seen[name] = where
		flag := flags.VarPF(value, name, "", usage)
		flag.Annotations = map[string][]string{keyAnnotation: {where}}
		if isBool {
			flag.NoOptDefVal = "true"
		}
	}
	eachLeaf(fields(v), path, prefix, func(name, where string, f field) {
		if _, varies := alternatives[name]; !varies {
			add(name, where, &flagValue{field: f}, f.usage(), f.value.Kind() == reflect.Bool)
		}
	})
	for _, o := range placed {
		o.eachLeaf(func(_, name, where string, f field) {
			if _, done := seen[name]; !done {
				value := &variantFlag{alternatives: alternatives[name]}
				add(name, where, value, value.usage(), f.value.Kind() == reflect.Bool)
			}
		})
	}
}

// placedChoice is a OneOf with the place of its keys: what the dotted keys and the flags begin
// with.
type placedChoice struct {
	*OneOf
	path, prefix string
}

// eachLeaf calls leaf for every leaf of every option that has a flag.
func (o placedChoice) eachLeaf(leaf func(option, name, where string, f field)) {
	for _, p := range o.options {
		own := slices.DeleteFunc(fields(pointee(p.Value)), func(f field) bool { return p.lacks(f.key) })
		eachLeaf(own, o.path, o.prefix, func(name, where string, f field) { leaf(p.Name, name, where, f) })
	}
}

// everyChoice lists the OneOfs of a struct and of the structs in it.
func everyChoice(v reflect.Value, path, prefix string) []placedChoice {
	var all []placedChoice
	for _, o := range choices(v) {
		all = append(all, placedChoice{o, path, prefix})
	}
	for _, f := range fields(v) {
		if f.flag == "-" || f.value.Kind() != reflect.Struct || isLeaf(f.value.Type()) || f.value.Type() == section {
			continue
		}
		inner := prefix
		if f.flag != "" {
			inner += f.flag + "-"
		}
		all = append(all, everyChoice(f.value, path+f.key+".", inner)...)
	}
	return all
}

// eachLeaf calls leaf for every leaf that has a flag, with the flag's name and the dotted key.
func eachLeaf(list []field, path, prefix string, leaf func(name, where string, f field)) {
	for _, f := range list {
		where := path + f.key
		if f.flag == "-" || f.value.Type() == section {
			continue
		}
		if !isLeaf(f.value.Type()) {
			if f.value.Kind() == reflect.Struct {
				inner := prefix
				if f.flag != "" {
					inner += f.flag + "-"
				}
				eachLeaf(fields(f.value), where+".", inner, leaf)
			}
			continue
		}
		name := f.flag
		name = cmp.Or(name, kebab(f.key))
		leaf(prefix+name, where, f)
	}
}

// An alternative is a leaf of one option of a [OneOf].
type alternative struct {
	of     *OneOf
	path   string // what its dotted keys begin with
	option string
	where  string
	field  field
}

// variantFlag is a flag that some options of a [OneOf] have.
type variantFlag struct {
	alternatives []alternative
	words        []string
	given        bool
}

// Set keeps what the user typed: which option counts is known when all flags have been parsed.
func (f *variantFlag) Set(text string) error {
	var first error
	for _, a := range f.alternatives {
		words := split(a.field.value.Type(), text)
		if f.given && a.field.value.Kind() == reflect.Slice {
			words = append(slices.Clone(f.words), words...)
		}
		err := a.field.set(words)
		if err == nil {
			f.words, f.given = words, true
			return nil
		}
		if first == nil {
			first = err
		}
	}
	return first
}

// resolve puts the words into the chosen option.
func (f *variantFlag) resolve(flag string) error {
	var has []string
	for _, a := range f.alternatives {
		if a.option == a.of.Chosen {
			if err := a.field.set(f.words); err != nil {
				return fmt.Errorf("--%s %s: %w", flag, strings.Join(f.words, ","), err)
			}
			return nil
		}
		has = append(has, a.option)
	}
	of := f.alternatives[0].of
	return fmt.Errorf("--%s: %s %s has no such setting; %s", flag, of.key, of.Chosen, have(has))
}

func (f *variantFlag) String() string {
	if f == nil || len(f.alternatives) == 0 {
		return ""
	}
	return f.alternatives[0].field.text()
}

func (f *variantFlag) Type() string { return f.alternatives[0].field.kind() }

// usage is the help of the first alternative, and says whose the flag is where not every option has
// it.
func (f *variantFlag) usage() string {
	first := f.alternatives[0]
	text := first.field.usage()
	if len(f.alternatives) < len(first.of.options) {
		names := make([]string, len(f.alternatives))
		for i, a := range f.alternatives {
			names[i] = a.option
		}
		text += fmt.Sprintf(" [%s %s]", first.of.key, strings.Join(names, ", "))
	}
	return text
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
	return f.text()
}

func (f *flagValue) Type() string { return f.kind() }

// Resolve gives cfg its final values after the flags it was bound to were parsed: it reads the file
// named by --config, if any, and puts the flags that the user set back on top. If a file is for
// several commands (it has the key [PlanKey]), it reads the section of that name.
func Resolve(flags *pflag.FlagSet, command string, cfg any) error {
	pointee(cfg)
	if file := flags.Lookup(FileFlag); file != nil && file.Value.String() != "" {
		if err := (reader{file: file.Value.String(), flags: flags, command: command}).load(cfg); err != nil {
			return err
		}
	}
	var failed error
	visit := func(set func(flag *pflag.Flag) error) {
		flags.Visit(func(flag *pflag.Flag) {
			if failed == nil {
				failed = set(flag)
			}
		})
	}
	visit(func(flag *pflag.Flag) error {
		if v, ok := flag.Value.(*flagValue); ok && v.given {
			if err := v.set(v.words); err != nil {
				return fmt.Errorf("--%s %s: %w", flag.Name, strings.Join(v.words, ","), err)
			}
		}
		return nil
	})
	visit(func(flag *pflag.Flag) error { // now it is known which options count
		if v, ok := flag.Value.(*variantFlag); ok && v.given {
			return v.resolve(flag.Name)
		}
		return nil
	})
	return failed
}
