package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
)

// OneOf is a part of a configuration that has the keys of one of several structs. Which one, a key
// of its own says:
//
//	task: rotation   # chooses
//	crop: 64x64x64   # a key of the chosen struct
//
// A field of this type is inlined. On the command line there is a flag for every key of every
// struct; one that the chosen struct has no use for is an error.
type OneOf struct {
	// Chosen is the name of the struct that counts.
	Chosen string

	key, help string
	options   []Option
}

// An Option is one of the structs of a [OneOf].
type Option struct {
	Name string
	// Value is a pointer to the struct, which holds the defaults. A struct that options share may
	// have a method Lacks(key string) bool: the keys that only another option has a use for. They
	// have no flag here; a file may have them, as earlier versions wrote them.
	Value any
}

// lacks tells whether only another option has a use for a key.
func (p Option) lacks(key string) bool {
	some, ok := p.Value.(interface{ Lacks(key string) bool })
	return ok && some.Lacks(key)
}

// NewOneOf makes a choice, by the key that it has in the file. The first option is the default.
func NewOneOf(key, help string, options ...Option) OneOf {
	if len(options) == 0 {
		panic("config: a choice of nothing")
	}
	for _, o := range options {
		pointee(o.Value)
	}
	return OneOf{Chosen: options[0].Name, key: key, help: help, options: options}
}

// Value is the pointer to the chosen struct.
func (o *OneOf) Value() any {
	i := slices.IndexFunc(o.options, func(p Option) bool { return p.Name == o.Chosen })
	if i < 0 {
		panic(fmt.Sprintf("config: %s %q is none of the choices", o.key, o.Chosen))
	}
	return o.options[i].Value
}

// Set replaces the values of the chosen struct by those that a pointer to another one points to.
func (o *OneOf) Set(value any) { pointee(o.Value()).Set(pointee(value)) }

// Option is the pointer to one of the structs, chosen or not; nil where there is none of that name.
func (o *OneOf) Option(name string) any {
	for _, p := range o.options {
		if p.Name == name {
			return p.Value
		}
	}
	return nil
}

// Names lists the choices.
func (o *OneOf) Names() []string {
	names := make([]string, len(o.options))
	for i, p := range o.options {
		names[i] = p.Name
	}
	return names
}

// with lists the options that have a key.
func (o *OneOf) with(key string) (names []string) {
	for _, p := range o.options {
		if slices.Contains(keys(fields(pointee(p.Value))), key) {
			names = append(names, p.Name)
		}
	}
	return names
}

// have says that options have something.
func have(options []string) string {
	verb := "has"
	if len(options) > 1 {
		verb = "have"
	}
	return strings.Join(options, ", ") + " " + verb
}

// Clone is a copy that shares no struct with the original.
func (o *OneOf) Clone() OneOf {
	c := *o
	c.options = slices.Clone(o.options)
	for i, p := range c.options {
		fresh := reflect.New(reflect.TypeOf(p.Value).Elem())
		fresh.Elem().Set(reflect.ValueOf(p.Value).Elem())
		c.options[i].Value = fresh.Interface()
	}
	return c
}

// Override is a copy in which a section of a file, which errors call name, replaces values. The
// section may choose another struct, into which share brings what it has in common with the one
// that was chosen.
func (o *OneOf) Override(name string, s Section, share func(into, from any)) (OneOf, error) {
	c := o.Clone()
	if to, ok := s.Lookup(o.key); ok && to != c.Chosen {
		into := c.Option(to)
		if into == nil {
			return c, fmt.Errorf("%s: there is no %s %q: choose one of %s", name, o.key, to,
				strings.Join(o.Names(), ", "))
		}
		share(into, c.Value())
		c.Chosen = to
	}
	holder := struct {
		OneOf `yaml:",inline"`
	}{c}
	err := s.Apply(name, &holder)
	return holder.OneOf, err
}

var oneOf = reflect.TypeFor[OneOf]()

// selector is the key that chooses.
func (o *OneOf) selector() field {
	return field{key: o.key, help: o.help, choice: o.Names(),
		value: reflect.ValueOf(o).Elem().FieldByName("Chosen")}
}

// choices lists the OneOfs of a struct, those of inlined structs among them.
func choices(v reflect.Value) []*OneOf {
	var all []*OneOf
	for n := range v.NumField() {
		f := v.Field(n)
		if f.Type() == oneOf {
			all = append(all, f.Addr().Interface().(*OneOf))
		} else if isInline(v.Type().Field(n)) && f.Kind() == reflect.Struct {
			all = append(all, choices(f)...)
		}
	}
	return all
}

// A Section is a part of a file that is kept as it is, to be read over other values later. It has
// no flags.
type Section struct{ text string }

var section = reflect.TypeFor[Section]()

// IsZero says whether the section is empty.
func (s Section) IsZero() bool { return s.text == "" }

// String is the section's YAML.
func (s Section) String() string { return s.text }

// Apply reads the section into the struct that cfg points to, over the values that it has. name
// stands for the section in errors.
func (s Section) Apply(name string, cfg any) error { return Parse(name, []byte(s.text), cfg) }

// NewSection makes a section of YAML, which must be a mapping: anything else is a programmer's
// mistake.
func NewSection(text string) Section {
	var s Section
	node, err := document("section", []byte(text))
	if err == nil {
		err = reader{file: "section"}.section(node, reflect.ValueOf(&s).Elem(), "section")
	}
	if err != nil {
		panic(fmt.Sprintf("config: %v in %q", err, text))
	}
	return s
}

// Has says whether the section has a key, or keys joined with dots.
func (s Section) Has(key string) bool { return s.find(key) != nil }

// Lookup is the value of a key of the section, if it is a plain one.
func (s Section) Lookup(key string) (value string, ok bool) {
	if node := s.find(key); node != nil {
		return scalar(node)
	}
	return "", false
}

// find is the value of a key, or of keys joined with dots; nil if there is none.
func (s Section) find(key string) ast.Node {
	node, err := document("section", []byte(s.text))
	if err != nil {
		return nil
	}
	for part := range strings.SplitSeq(key, ".") {
		if node != nil {
			node = find(node, part)
		}
	}
	return node
}

// section keeps a mapping as canonical text.
func (r reader) section(n ast.Node, v reflect.Value, path string) error {
	if _, _, err := r.entries(n, path+"."); err != nil {
		return err
	}
	var values yaml.MapSlice
	if err := yaml.NodeToValue(n, &values); err != nil {
		return r.errorf(n, "%s: %w", path, err)
	}
	text, err := yaml.Marshal(values)
	if err != nil {
		return r.errorf(n, "%s: %w", path, err)
	}
	v.Set(reflect.ValueOf(Section{string(text)}))
	return nil
}

// writeSection writes a section below its key.
func writeSection(b *strings.Builder, s Section, indent string) {
	for line := range strings.Lines(s.text) {
		b.WriteString(indent + strings.TrimSuffix(line, "\n") + "\n")
	}
}
