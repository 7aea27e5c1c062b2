package config

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
	"github.com/spf13/pflag"

	"github.com/voxsaw/voxsaw/internal/smallfile"

	"github.com/voxsaw/voxsaw/internal/safetext"
)

// maxSize bounds what is parsed. The longest file a person writes is a few kilobytes.
const maxSize = smallfile.Settings

// Load reads a YAML file into the struct that cfg points to, over the values it has. A key that no
// field has is an error that names it, the line and the nearest valid key; so is a value of the
// wrong type. After an error cfg may be partly changed.
func Load(path string, cfg any) error { return reader{file: path}.load(cfg) }

// load reads the file.
func (r reader) load(cfg any) error {
	path := r.file
	data, err := smallfile.ReadGiven(path, maxSize)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("config file %s does not exist", path)
	} else if err != nil {
		return fmt.Errorf("reading config: %w", err)
	}
	return r.parse(data, cfg)
}

// Parse does what [Load] does with bytes that are already here; name stands for the file in errors.
func Parse(name string, data []byte, cfg any) error { return reader{file: name}.parse(data, cfg) }

// Stored is [Parse] for settings that were checked when they were written, such as a checkpoint's:
// what a number may be today does not keep anybody from reading them.
func Stored(name string, data []byte, cfg any) error {
	return reader{file: name, stored: true}.parse(data, cfg)
}

// parse puts the only document of a text into the struct that cfg points to.
func (r reader) parse(data []byte, cfg any) error {
	v := pointee(cfg)
	root, err := document(r.file, data)
	if err != nil || root == nil {
		return err
	}
	if r.command == "" || find(root, PlanKey) == nil {
		return r.mapping(root, v, "")
	}
	section := find(root, r.command)
	if section == nil {
		return fmt.Errorf("%s is a plan, and has no section %q: it says nothing of this command", r.file, r.command)
	}
	if section.Type() == ast.NullType {
		return nil
	}
	if r.command == PlanKey && find(section, "decisions") != nil {
		return fmt.Errorf("%s is a plan that was made, not settings to make one by", r.file)
	}
	return r.mapping(section, v, r.command+".")
}

// PlanKey is the key of a file that has a section for each of several commands, as voxsaw plan
// writes it.
const PlanKey = "plan"

// find is the value of a key; nil where there is none.
func find(n ast.Node, key string) ast.Node {
	values, _, err := reader{}.entries(n, "")
	if err != nil {
		return nil
	}
	for _, e := range values {
		if e.Key.GetToken().Value == key {
			return e.Value
		}
	}
	return nil
}

// ParseSection does what [Parse] does with one section: the mapping under the keys of path, joined
// with dots, in a larger document. It lets a command read what it needs from another command's
// resolved configuration. A section that is absent is an error.
func ParseSection(name string, data []byte, path string, cfg any) error {
	v := pointee(cfg)
	node, err := document(name, data)
	if err != nil {
		return err
	}
	for key := range strings.SplitSeq(path, ".") {
		if node = find(node, key); node == nil {
			return fmt.Errorf("%s: no section %q", name, path)
		}
	}
	return reader{file: name}.mapping(node, v, path+".")
}

// Gives tells whether a file that a command reads as its settings has a key, such as train.steps.
// A file that cannot be read has none.
func Gives(path, command, key string) bool {
	node := root(path)
	if node == nil {
		return false
	}
	if command != "" && find(node, PlanKey) != nil {
		key = command + "." + key
	}
	for name := range strings.SplitSeq(key, ".") {
		if node = find(node, name); node == nil {
			return false
		}
	}
	return true
}

// root is what a file holds; nil where it is empty or cannot be read.
func root(path string) ast.Node {
	data, err := smallfile.Read(path, maxSize)
	if err != nil {
		return nil
	}
	node, _ := document(path, data)
	return node
}

// document parses the only document of a file; nil where the file is empty. The mark that editors
// on Windows put before UTF-8 is passed over.
func document(name string, data []byte) (root ast.Node, err error) {
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	if err := checkSize(name, data); err != nil {
		return nil, err
	}
	defer func() { // the parser is another's, and the bytes are anybody's
		if p := recover(); p != nil {
			root, err = nil, fmt.Errorf("%s: not valid YAML: %v", name, p)
		}
	}()
	file, err := parse(name, data)
	if err != nil {
		return nil, err
	}
	for _, d := range file.Docs {
		if _, directive := d.Body.(*ast.DirectiveNode); d.Body == nil || directive {
			continue
		}
		if root != nil {
			return nil, fmt.Errorf("%s: more than one document", name)
		}
		root = d.Body
	}
	if _, comment := root.(*ast.CommentGroupNode); comment {
		root = nil
	}
	return root, nil
}

// parse returns the tree of a text. The parser leaves out what follows an empty document, so that
// two lines of dashes are refused here.
func parse(name string, data []byte) (*ast.File, error) {
	tokens := lexer.Tokenize(string(data))
	headers := 0
	for _, t := range tokens {
		if t.Type != token.DocumentHeaderType {
			continue
		}
		if headers++; headers > 1 {
			return nil, fmt.Errorf("%s:%d: more than one document", name, t.Position.Line)
		}
	}
	file, err := parser.Parse(tokens, 0)
	if line := indentedByTab(data); err != nil && line > 0 {
		return nil, fmt.Errorf("%s:%d: a tab begins the line: YAML is indented with spaces alone", name, line)
	}
	if syntax := yaml.Error(nil); errors.As(err, &syntax) && syntax.GetToken() != nil &&
		syntax.GetToken().Position != nil {
		return nil, fmt.Errorf("%s:%d: %s", name, syntax.GetToken().Position.Line, syntax.GetMessage())
	}
	if err != nil {
		return nil, fmt.Errorf("%s: not valid YAML: %w", name, err)
	}
	return file, nil
}

// indentedByTab is the first line with a tab before its text; 0 for none.
func indentedByTab(data []byte) int {
	line := 0
	for text := range bytes.Lines(data) {
		line++
		if rest := bytes.TrimLeft(text, " "); bytes.HasPrefix(rest, []byte("\t")) && len(bytes.TrimSpace(rest)) > 0 {
			return line
		}
	}
	return 0
}

// reader puts YAML nodes into Go values and says where it failed.
type reader struct {
	file   string
	stored bool // any number is taken
	// of the command that reads the file: what it calls its keys, and what has none; nil: no flags
	flags *pflag.FlagSet
	// command has a section of its own in a file for several; "" where there is no such file
	command string
}

func (r reader) errorf(n ast.Node, format string, args ...any) error {
	line := 0
	if n != nil && n.GetToken() != nil && n.GetToken().Position != nil {
		line = n.GetToken().Position.Line
	}
	return fmt.Errorf("%s:%d: %w", r.file, line, fmt.Errorf(format, args...))
}

// entries lists what a mapping holds, in order.
func (r reader) entries(n ast.Node, path string) (values []*ast.MappingValueNode, empty bool, err error) {
	switch n := n.(type) {
	case *ast.MappingNode:
		return n.Values, len(n.Values) == 0, nil
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{n}, false, nil
	}
	if path == "" {
		return nil, false, r.errorf(n, "want lines of \"key: value\"")
	}
	return nil, false, r.errorf(n, "%s: want keys and values, indented", strings.TrimSuffix(path, "."))
}

func (r reader) mapping(n ast.Node, v reflect.Value, path string) error {
	values, _, err := r.entries(n, path)
	if err != nil {
		return err
	}
	// Which keys there are may depend on one of them.
	for _, o := range choices(v) {
		for _, e := range values {
			if e.Key.GetToken().Value == o.key {
				if err := r.value(e.Value, o.selector(), path+o.key); err != nil {
					return err
				}
			}
		}
	}
	known := fields(v)
	for _, e := range values {
		key := e.Key.GetToken().Value
		found := false
		for _, f := range known {
			if found = f.key == key; found {
				if err := r.value(e.Value, f, path+key); err != nil {
					return err
				}
				break
			}
		}
		if !found {
			return r.errorf(e.Key, "%w", r.unknownKey(v, path, key))
		}
	}
	return nil
}

// An UnknownKeyError says that a file has a key that its reader does not have.
type UnknownKeyError struct {
	Key string // dotted
	error
}

// unknownKey is the error of a key that a mapping does not have: that of a section of it, or one
// that is misspelt.
func (r reader) unknownKey(v reflect.Value, path, key string) error {
	for _, o := range choices(v) {
		if has := o.with(key); len(has) > 0 {
			return fmt.Errorf("unknown key %q: %s %s has no such setting; %s", path+key, o.key, o.Chosen, have(has))
		}
	}
	known := fields(v)
	inside := map[string][]string{}
	deeper(known, path, inside)
	meant := inside[key]
	if len(meant) == 0 {
		near := Nearest(key, slices.Sorted(maps.Keys(inside)))
		own := Nearest(key, keys(known))
		// Most words are like one of the many keys inside, so that one letter must make it.
		if len(near) > 0 && edits(key, near[0]) == 1 && (len(own) == 0 || edits(key, own[0]) > 1) {
			meant = inside[near[0]]
		}
	}
	if flag := r.flagOf(path + key); len(meant) == 0 && flag != nil {
		if Key(flag) == "" {
			return fmt.Errorf("%q is no key of the file, but a flag of the command line alone: --%s", path+key,
				flag.Name)
		}
		meant = []string{strconv.Quote(Key(flag))}
	}
	if len(meant) == 0 {
		return &UnknownKeyError{path + key, unknown("key", path, key, keys(known))}
	}
	return &UnknownKeyError{path + key, fmt.Errorf("unknown key %q: did you mean %s?", path+key,
		strings.Join(meant, " or "))}
}

// flagOf is the flag that has the name of a key; nil for none.
func (r reader) flagOf(key string) *pflag.Flag {
	if r.flags == nil {
		return nil
	}
	return r.flags.Lookup(strings.ReplaceAll(key, "_", "-"))
}

// deeper lists the keys in the sections of a mapping: the last word of each, and the whole of it,
// quoted.
func deeper(known []field, path string, all map[string][]string) {
	for _, f := range known {
		v := f.value
		if v.Kind() != reflect.Struct || v.Type() == section {
			continue
		}
		inside := fields(v)
		for _, in := range inside {
			all[in.key] = append(all[in.key], strconv.Quote(path+f.key+"."+in.key))
		}
		deeper(inside, path+f.key+".", all)
	}
}

func keys(known []field) []string {
	all := make([]string, len(known))
	for n, f := range known {
		all[n] = f.key
	}
	return all
}

func (r reader) value(n ast.Node, f field, path string) error {
	switch n.(type) {
	case *ast.AnchorNode, *ast.AliasNode, *ast.TagNode, *ast.MergeKeyNode:
		return r.errorf(n, "%s: anchors, aliases and tags are not supported: write the value out", path)
	case *ast.NullNode, nil:
		return r.errorf(n, "%s has no value: give one, or remove the line for the default", path)
	}
	t := f.value.Type()
	switch {
	case isLeaf(t):
		words, err := r.words(n, t, path)
		if err != nil {
			return err
		}
		if r.stored {
			f.within = interval{}
		}
		if err := f.set(words); err != nil {
			return r.errorf(n, "%s: %w", path, err)
		}
		return nil
	case t.Kind() == reflect.Pointer:
		inner := f
		inner.value = reflect.New(t.Elem()).Elem()
		if !f.value.IsNil() {
			inner.value.Set(f.value.Elem())
		}
		if err := r.value(n, inner, path); err != nil {
			return err
		}
		f.value.Set(inner.value.Addr())
		return nil
	case t == section:
		return r.section(n, f.value, path)
	case t.Kind() == reflect.Struct:
		return r.mapping(n, f.value, path+".")
	case t.Kind() == reflect.Slice:
		return r.sequence(n, f, path)
	case t.Kind() == reflect.Map && isScalar(t.Key()):
		values, _, err := r.entries(n, path)
		if err != nil {
			return err
		}
		f.value.Set(reflect.MakeMap(t))
		for _, e := range values {
			name := e.Key.GetToken().Value
			key := reflect.New(t.Key()).Elem()
			if err := setScalar(key, name); err != nil {
				return r.errorf(e.Key, "%s: %w", path, err)
			}
			inner := f
			inner.value = reflect.New(t.Elem()).Elem()
			if err := r.value(e.Value, inner, path+"."+name); err != nil {
				return err
			}
			f.value.SetMapIndex(key, inner.value)
		}
		return nil
	}
	panic(fmt.Sprintf("config: %s: fields of type %s are not supported", path, t))
}

// sequence reads a list of structs. Items replace the list that was there; each starts from the
// zero value.
func (r reader) sequence(n ast.Node, f field, path string) error {
	items, ok := n.(*ast.SequenceNode)
	if !ok {
		return r.errorf(n, "%s: want a list, one \"- \" an item", path)
	}
	list := reflect.MakeSlice(f.value.Type(), len(items.Values), len(items.Values))
	for i, item := range items.Values {
		inner := f
		inner.value = list.Index(i)
		if err := r.value(item, inner, fmt.Sprintf("%s[%d]", path, i)); err != nil {
			return err
		}
	}
	f.value.Set(list)
	return nil
}

// words are the scalars of a leaf: of a sequence, or of a single scalar that is split the way a
// flag is.
func (r reader) words(n ast.Node, t reflect.Type, path string) ([]string, error) {
	if items, ok := n.(*ast.SequenceNode); ok {
		if !isList(t) {
			return nil, r.errorf(n, "%s: want one value, not a list", path)
		}
		words := make([]string, len(items.Values))
		for i, item := range items.Values {
			text, ok := scalar(item)
			if !ok {
				return nil, r.errorf(item, "%s[%d]: want a plain value", path, i)
			}
			words[i] = text
		}
		return words, nil
	}
	text, ok := scalar(n)
	if !ok {
		return nil, r.errorf(n, "%s: want a plain value (%s), not keys and values", path, kindName(t))
	}
	return split(t, text), nil
}

func scalar(n ast.Node) (string, bool) {
	switch n := n.(type) {
	case *ast.StringNode:
		return n.Value, true
	case *ast.LiteralNode:
		return n.Value.Value, true
	case *ast.BoolNode, *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode:
		return n.GetToken().Value, true
	}
	return "", false
}

// Marshal writes the struct that cfg points to as YAML, keys in the order of declaration, help
// texts as comments. [Parse] reads back the same values, and the same values give the same bytes.
// A struct with a method Unused(key string) bool says which keys do nothing beside the others, and
// are left out.
func Marshal(cfg any) ([]byte, error) {
	var b strings.Builder
	writeStruct(&b, pointee(cfg), "")
	return []byte(b.String()), nil
}

func writeStruct(b *strings.Builder, v reflect.Value, indent string) {
	of, _ := v.Interface().(interface{ Unused(key string) bool })
	for _, f := range fields(v) {
		if of == nil || !of.Unused(f.key) {
			writeField(b, f, indent)
		}
	}
}

func writeField(b *strings.Builder, f field, indent string) {
	if f.spare && (f.value.IsZero() || f.value.Kind() == reflect.Slice && f.value.Len() == 0) {
		return
	}
	if f.value.Kind() == reflect.Pointer {
		if f.value.IsNil() {
			return
		}
		f.value = f.value.Elem()
	}
	t := f.value.Type()
	comment := ""
	u := f.usage()
	if f.short() {
		u = f.comment()
	}
	if u != "" {
		comment = " # " + strings.ReplaceAll(u, "\n", " ")
	}
	b.WriteString(indent + f.key + ":")
	switch {
	case isLeaf(t):
		texts, alone := f.texts(yamlText)
		text := strings.Join(texts, ", ")
		if !alone {
			text = "[" + text + "]"
		}
		b.WriteString(" " + text + comment + "\n")
	case t == section:
		b.WriteString(comment + "\n")
		writeSection(b, f.value.Interface().(Section), indent+"  ")
	case t.Kind() == reflect.Struct:
		b.WriteString(comment + "\n")
		writeStruct(b, f.value, indent+"  ")
	case t.Kind() == reflect.Slice:
		if f.value.Len() == 0 {
			b.WriteString(" []" + comment + "\n")
			return
		}
		b.WriteString(comment + "\n")
		for n := range f.value.Len() {
			var item strings.Builder
			writeStruct(&item, reflect.Indirect(f.value.Index(n)), indent+"    ")
			text := item.String()
			b.WriteString(indent + "  - " + strings.TrimPrefix(text, indent+"    "))
		}
	case t.Kind() == reflect.Map:
		if f.value.Len() == 0 {
			b.WriteString(" {}" + comment + "\n")
			return
		}
		b.WriteString(comment + "\n")
		for _, key := range sortedKeys(f.value) {
			writeField(b, field{key: yamlText(key), value: f.value.MapIndex(key)}, indent+"  ")
		}
	}
}

// sortedKeys puts the keys of a map in order: numbers by value, the rest by text.
func sortedKeys(m reflect.Value) []reflect.Value {
	return slices.SortedFunc(slices.Values(m.MapKeys()), func(a, b reflect.Value) int {
		switch {
		case a.CanInt():
			return cmp.Compare(a.Int(), b.Int())
		case a.CanUint():
			return cmp.Compare(a.Uint(), b.Uint())
		}
		return cmp.Compare(scalarText(a), scalarText(b))
	})
}

var plain = regexp.MustCompile(`^[A-Za-z_./][A-Za-z0-9_./+ -]*$`)

func yamlText(v reflect.Value) string {
	text := scalarText(v)
	if v.Kind() == reflect.String || isText(v.Type()) {
		return quoted(text)
	}
	return text
}

// quoted writes a string so that YAML reads a string: plain where nothing could be mistaken.
func quoted(s string) string {
	s = safetext.Pack(s) // YAML is UTF-8, and a path need not be
	if !plain.MatchString(s) || strings.HasSuffix(s, " ") || token.ToNumber(s) != nil {
		return strconv.Quote(s)
	}
	switch strings.ToLower(s) {
	case "true", "false", "null", "yes", "no", "on", "off", "y", "n", ".inf", ".nan":
		return strconv.Quote(s)
	}
	return s
}
