package pytorch

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"math/big"
	"strconv"
	"strings"
)

// A pickle is a program for a machine with a stack: it pushes values, gathers them into lists and
// dictionaries, and may name any function of Python and have it called. This reader knows the few
// that a checkpoint of weights needs ([globals]), makes values of its own for them, and refuses
// every other by its name. Nothing is ever called.

// The values of a pickle: nil, bool, int64, *big.Int (that int64 does not hold), float64, string,
// []byte, *[]any (a list), Tuple, *Dict, *Set, *Tensor, and Global for what a name stands for.
type (
	// Tuple is Python's.
	Tuple []any
	// Set is Python's, in the order in which it was filled.
	Set struct{ Items []any }
	// Global is a type or a function of Python that a pickle names and nothing is done with.
	Global struct{ Module, Name string }
)

// Dict is Python's dictionary, in the order in which it was filled. Keys are strings, numbers and
// tuples of them; a key that comes twice has the later value.
type Dict struct {
	Keys   []any
	Values []any
	at     map[any]int
}

// Get is the value of a key that is a string; nil where there is none.
func (d *Dict) Get(key string) any {
	if d == nil {
		return nil
	}
	if n, ok := d.at[key]; ok {
		return d.Values[n]
	}
	return nil
}

func (d *Dict) set(key, value any) error {
	var hashed any
	switch k := key.(type) {
	case nil, bool, int64, float64, string, Global:
		hashed = k
	case Tuple, *big.Int, []byte:
		hashed = fmt.Sprintf("\x00%v", k) // not to be asked for by its name
	default:
		return fmt.Errorf("a %s cannot be a key", describe(key))
	}
	if d.at == nil {
		d.at = map[any]int{}
	}
	if n, ok := d.at[hashed]; ok {
		d.Values[n] = value
		return nil
	}
	d.at[hashed] = len(d.Keys)
	d.Keys, d.Values = append(d.Keys, key), append(d.Values, value)
	return nil
}

// What a pickle may be: a checkpoint of a network of a thousand layers stays far below.
const (
	mostValues = 4 << 20  // that are pushed
	mostText   = 16 << 20 // bytes of one string
	mostDepth  = 1 << 16  // of the stack's marks
)

// callable makes the value that Python's function would have made.
type callable func(r *unpickler, args Tuple) (any, error)

// globals are what a pickle may name to have it called. Types of numbers and of storages are named
// alone.
var globals = map[Global]callable{
	{"collections", "OrderedDict"}:             newDict,
	{"builtins", "dict"}:                       newDict,
	{"__builtin__", "dict"}:                    newDict,
	{"builtins", "set"}:                        newSet,
	{"__builtin__", "set"}:                     newSet,
	{"torch._utils", "_rebuild_tensor_v2"}:     rebuildTensor,
	{"torch._utils", "_rebuild_parameter"}:     rebuildParameter,
	{"torch", "device"}:                        text("device"),
	{"torch", "Size"}:                          size,
	{"numpy.core.multiarray", "scalar"}:        numpyScalar,
	{"numpy._core.multiarray", "scalar"}:       numpyScalar,
	{"numpy", "dtype"}:                         newDtype,
	{"_codecs", "encode"}:                      encode,
	{"numpy.core.multiarray", "_reconstruct"}:  numpyArray,
	{"numpy._core.multiarray", "_reconstruct"}: numpyArray,
	{"pathlib", "PosixPath"}:                   posixPath,
	{"pathlib", "WindowsPath"}:                 posixPath,
	{"pathlib", "PurePosixPath"}:               posixPath,
}

// named are what a pickle may name without having it called.
func named(g Global) bool {
	switch g.Module {
	case "torch":
		_, storage := storages[g.Name]
		switch g.Name {
		case "float16", "float32", "float64", "bfloat16", "int8", "int16", "int32", "int64", "uint8", "bool":
			return true
		}
		return storage
	case "torch.storage":
		return g.Name == "UntypedStorage" || g.Name == "TypedStorage"
	case "numpy":
		return g.Name == "ndarray"
	}
	return false
}

// A RefusedError says that a pickle wants something called that no checkpoint of weights needs.
type RefusedError struct{ Global }

func (e *RefusedError) Error() string {
	return fmt.Sprintf(
		"its pickle wants %s.%s of Python, which a checkpoint of weights does not "+
			"need: it was not called, and nothing is read",
		e.Module,
		e.Name,
	)
}

// unpickler is the machine.
type unpickler struct {
	in      *bufio.Reader
	stack   []any
	marks   []int
	memo    map[uint64]any
	values  int // pushed so far
	storage func(key string, kind string, count int64) (*storage, error)
}

// unpickle runs a pickle. storage is asked for the memory of tensors.
func unpickle(in io.Reader, storage func(key, kind string, count int64) (*storage, error)) (any, error) {
	r := &unpickler{in: bufio.NewReader(in), memo: map[uint64]any{}, storage: storage}
	for {
		op, err := r.in.ReadByte()
		if err != nil {
			return nil, fmt.Errorf("the pickle ends in the middle: %w", unexpected(err))
		}
		if op == '.' {
			return r.pop()
		}
		if err := r.step(op); err != nil {
			return nil, err
		}
		if r.values > mostValues {
			return nil, fmt.Errorf("the pickle makes more than %d values", mostValues)
		}
	}
}

func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

func (r *unpickler) push(v any) {
	r.stack = append(r.stack, v)
	r.values++
}

func (r *unpickler) pop() (any, error) {
	if n := len(r.stack); n > r.floor() {
		v := r.stack[n-1]
		r.stack = r.stack[:n-1]
		return v, nil
	}
	return nil, errors.New("the pickle takes more values than it has made")
}

// floor is where the values after the last mark begin.
func (r *unpickler) floor() int {
	if len(r.marks) == 0 {
		return 0
	}
	return r.marks[len(r.marks)-1]
}

// marked takes the values after the last mark.
func (r *unpickler) marked() ([]any, error) {
	if len(r.marks) == 0 {
		return nil, errors.New("the pickle has no mark where it needs one")
	}
	from := r.floor()
	r.marks = r.marks[:len(r.marks)-1]
	items := append([]any(nil), r.stack[from:]...)
	r.stack = r.stack[:from]
	return items, nil
}

// top is the value that the next operation changes.
func (r *unpickler) top() (any, error) {
	if len(r.stack) <= r.floor() {
		return nil, errors.New("the pickle changes a value that it has not made")
	}
	return r.stack[len(r.stack)-1], nil
}

// number reads n little-endian bytes.
func (r *unpickler) number(n int) (uint64, error) {
	var b [8]byte
	if _, err := io.ReadFull(r.in, b[:n]); err != nil {
		return 0, fmt.Errorf("the pickle ends in the middle: %w", unexpected(err))
	}
	return binary.LittleEndian.Uint64(b[:]), nil
}

// bytes reads as many bytes as a number of n bytes before them says.
func (r *unpickler) bytes(n int) ([]byte, error) {
	count, err := r.number(n)
	if err != nil {
		return nil, err
	}
	if count > mostText {
		return nil, fmt.Errorf("the pickle has a text of %d bytes, more than %d", count, mostText)
	}
	b := make([]byte, count)
	if _, err := io.ReadFull(r.in, b); err != nil {
		return nil, fmt.Errorf("the pickle ends in the middle: %w", unexpected(err))
	}
	return b, nil
}

func (r *unpickler) line() (string, error) {
	b, err := r.in.ReadSlice('\n')
	if err != nil {
		return "", fmt.Errorf("the pickle has a line that does not end: %w", unexpected(err))
	}
	return strings.TrimSuffix(string(b), "\n"), nil
}

// step carries out one operation: Python's Lib/pickletools.py says what each does.
func (r *unpickler) step(op byte) error {
	switch op {
	case 0x80: // PROTO
		version, err := r.number(1)
		if err == nil && version > 5 {
			return fmt.Errorf("a pickle of protocol %d: 2 to 5 are known", version)
		}
		return err
	case 0x95: // FRAME
		_, err := r.number(8)
		return err
	case '(': // MARK
		if len(r.marks) >= mostDepth {
			return errors.New("the pickle is nested too deeply")
		}
		r.marks = append(r.marks, len(r.stack))
		return nil
	case '0': // POP
		_, err := r.pop()
		return err
	case 'N':
		r.push(nil)
	case 0x88:
		r.push(true)
	case 0x89:
		r.push(false)
	case '}':
		r.push(&Dict{})
	case ']':
		r.push(&[]any{})
	case ')':
		r.push(Tuple{})
	case 0x8f:
		r.push(&Set{})
	case 'K', 'M', 'J', 0x8a, 'I', 'L', 'G', 'F':
		return r.numeric(op)
	case 'X', 0x8c, 0x8d, 'T', 'U', 'B', 'C', 0x8e, 'V', 'S':
		return r.text(op)
	case 'q', 'r', 'h', 'j', 0x94, 'p', 'g':
		return r.remember(op)
	case 't', 0x85, 0x86, 0x87:
		return r.tuple(op)
	case 'a', 'e', 's', 'u', 0x90, 'l', 'd':
		return r.fill(op)
	case 'c', 0x93:
		return r.global(op)
	case 'Q', 'R', 0x81, 'b':
		return r.make(op)
	default:
		return fmt.Errorf("operation 0x%02x of the pickle is not known", op)
	}
	return nil
}

func (r *unpickler) numeric(op byte) error {
	width := map[byte]int{'K': 1, 'M': 2, 'J': 4, 0x8a: 1, 'G': 8}[op]
	if width == 0 {
		text, err := r.line()
		if err != nil {
			return err
		}
		if op == 'F' {
			f, err := strconv.ParseFloat(text, 64)
			r.push(f)
			return err
		}
		if op == 'I' && (text == "00" || text == "01") {
			r.push(text == "01")
			return nil
		}
		n, err := strconv.ParseInt(strings.TrimSuffix(text, "L"), 10, 64)
		r.push(n)
		return err
	}
	n, err := r.number(width)
	if err != nil {
		return err
	}
	switch op {
	case 'J':
		r.push(int64(int32(n)))
	case 'G': // big-endian
		var b [8]byte
		binary.LittleEndian.PutUint64(b[:], n)
		r.push(math.Float64frombits(binary.BigEndian.Uint64(b[:])))
	case 0x8a: // LONG1: so many bytes of two's complement
		b := make([]byte, n)
		if _, err := io.ReadFull(r.in, b); err != nil {
			return fmt.Errorf("the pickle ends in the middle: %w", unexpected(err))
		}
		r.push(long(b))
	default:
		r.push(int64(n))
	}
	return nil
}

// long is a number in two's complement, its last byte the highest.
func long(b []byte) any {
	negative := len(b) > 0 && b[len(b)-1]&0x80 != 0
	magnitude := make([]byte, len(b))
	for i, x := range b {
		magnitude[len(b)-1-i] = x
	}
	v := new(big.Int).SetBytes(magnitude)
	if negative {
		v.Sub(v, new(big.Int).Lsh(big.NewInt(1), uint(8*len(b))))
	}
	if v.IsInt64() {
		return v.Int64()
	}
	return v
}

func (r *unpickler) text(op byte) error {
	if op == 'V' || op == 'S' {
		line, err := r.line()
		if err != nil {
			return err
		}
		r.push(strings.Trim(line, `'"`))
		return nil
	}
	b, err := r.bytes(map[byte]int{'X': 4, 0x8c: 1, 0x8d: 8, 'T': 4, 'U': 1, 'B': 4, 'C': 1, 0x8e: 8}[op])
	if err != nil {
		return err
	}
	if op == 'B' || op == 'C' || op == 0x8e {
		r.push(b)
	} else {
		r.push(string(b))
	}
	return nil
}

func (r *unpickler) remember(op byte) error {
	var n uint64
	var err error
	switch op {
	case 'q', 'h':
		n, err = r.number(1)
	case 'r', 'j':
		n, err = r.number(4)
	case 0x94: // MEMOIZE
		n = uint64(len(r.memo))
	default:
		var text string
		if text, err = r.line(); err == nil {
			n, err = strconv.ParseUint(text, 10, 32)
		}
	}
	if err != nil {
		return err
	}
	if op == 'h' || op == 'j' || op == 'g' {
		v, ok := r.memo[n]
		if !ok {
			return fmt.Errorf("the pickle remembers no value %d", n)
		}
		r.push(v)
		return nil
	}
	v, err := r.top()
	if err != nil {
		return err
	}
	r.memo[n] = v
	return nil
}

func (r *unpickler) tuple(op byte) error {
	if op == 't' {
		items, err := r.marked()
		if err != nil {
			return err
		}
		r.push(Tuple(items))
		return nil
	}
	items := make(Tuple, op-0x84)
	for n := len(items) - 1; n >= 0; n-- {
		var err error
		if items[n], err = r.pop(); err != nil {
			return err
		}
	}
	r.push(items)
	return nil
}

// fill adds values to a list, a dictionary or a set.
func (r *unpickler) fill(op byte) error {
	var items []any
	var err error
	switch op {
	case 'a', 's':
		items = make([]any, map[byte]int{'a': 1, 's': 2}[op])
		for n := len(items) - 1; n >= 0; n-- {
			if items[n], err = r.pop(); err != nil {
				return err
			}
		}
	default:
		if items, err = r.marked(); err != nil {
			return err
		}
	}
	if op == 'l' {
		r.push(&items)
		return nil
	}
	if op == 'd' {
		r.push(&Dict{})
	}
	to, err := r.top()
	if err != nil {
		return err
	}
	switch t := to.(type) {
	case *[]any:
		if op == 'a' || op == 'e' {
			*t = append(*t, items...)
			return nil
		}
	case *Set:
		if op == 0x90 {
			t.Items = append(t.Items, items...)
			return nil
		}
	case *Dict:
		if (op == 's' || op == 'u' || op == 'd') && len(items)%2 == 0 {
			for n := 0; n < len(items); n += 2 {
				if err := t.set(items[n], items[n+1]); err != nil {
					return err
				}
			}
			return nil
		}
	}
	return fmt.Errorf("the pickle fills a %s with %d values", describe(to), len(items))
}

func (r *unpickler) global(op byte) error {
	var g Global
	if op == 'c' {
		var err error
		if g.Module, err = r.line(); err != nil {
			return err
		}
		if g.Name, err = r.line(); err != nil {
			return err
		}
	} else {
		name, err := r.pop()
		if err != nil {
			return err
		}
		module, err := r.pop()
		if err != nil {
			return err
		}
		var ok1, ok2 bool
		g.Module, ok1 = module.(string)
		g.Name, ok2 = name.(string)
		if !ok1 || !ok2 {
			return errors.New("the pickle names a global by something that is no text")
		}
	}
	if _, ok := globals[g]; !ok && !named(g) {
		return &RefusedError{g}
	}
	r.push(g)
	return nil
}

// make makes a value: of a storage, or as a function of [globals] would.
func (r *unpickler) make(op byte) error {
	arg, err := r.pop()
	if err != nil {
		return err
	}
	if op == 'Q' {
		s, err := r.persistent(arg)
		if err != nil {
			return err
		}
		r.push(s)
		return nil
	}
	if op == 'b' {
		to, err := r.top()
		if err != nil {
			return err
		}
		return build(to, arg)
	}
	what, err := r.pop()
	if err != nil {
		return err
	}
	g, ok := what.(Global)
	args, isTuple := arg.(Tuple)
	if !ok || !isTuple {
		return fmt.Errorf("the pickle calls a %s", describe(what))
	}
	call, ok := globals[g]
	if !ok {
		return &RefusedError{g}
	}
	v, err := call(r, args)
	if err != nil {
		return fmt.Errorf("%s.%s: %w", g.Module, g.Name, err)
	}
	r.push(v)
	return nil
}

// build gives a value its state.
func build(to, state any) error {
	switch t := to.(type) {
	case *dtype:
		return t.build(state)
	case *array, *Dict, *Tensor: // nothing that is needed: metadata of a state_dict, for example
		return nil
	}
	return fmt.Errorf("the pickle gives a state to a %s", describe(to))
}

func describe(v any) string {
	switch v := v.(type) {
	case Global:
		return v.Module + "." + v.Name
	case *[]any:
		return "list"
	case *Dict:
		return "dictionary"
	}
	return fmt.Sprintf("%T", v)
}
