package config

import (
	"fmt"
	"slices"
	"strings"
)

// A Difference is a setting that two configurations have different values of. A value that is not
// there is empty.
type Difference struct{ Key, Old, New string }

// Differences lists the settings in which two YAML texts differ, by their dotted keys, in order.
func Differences(old, now string) ([]Difference, error) {
	if old == now {
		return nil, nil
	}
	before, after := map[string]string{}, map[string]string{}
	for n, text := range []string{old, now} {
		var v any
		if err := Unmarshal("configuration", []byte(text), &v); err != nil {
			return nil, err
		}
		flatten("", v, []map[string]string{before, after}[n])
	}
	var all []Difference
	for key, a := range before {
		if b := after[key]; a != b {
			all = append(all, Difference{key, a, b})
		}
	}
	for key, b := range after {
		if _, ok := before[key]; !ok {
			all = append(all, Difference{Key: key, New: b})
		}
	}
	slices.SortFunc(all, func(a, b Difference) int { return strings.Compare(a.Key, b.Key) })
	return all, nil
}

// Unlike says for a person in which settings two structs of the same type differ: "channels: 8 and
// 16; norm: instance and none". Both are pointers, as for [Marshal].
func Unlike(a, b any) string {
	var texts [2]string
	for n, cfg := range []any{a, b} {
		text, err := Marshal(cfg)
		if err != nil {
			return err.Error()
		}
		texts[n] = string(text)
	}
	differences, err := Differences(texts[0], texts[1])
	if err != nil {
		return err.Error()
	}
	parts := make([]string, len(differences))
	for n, d := range differences {
		parts[n] = fmt.Sprintf("%s: %s and %s", d.Key, given(d.Old), given(d.New))
	}
	return strings.Join(parts, "; ")
}

// given is a value, or that there is none.
func given(value string) string {
	if value == "" {
		return "nothing"
	}
	return value
}

// flatten collects the leaves of a YAML value under their dotted keys, as a user would write them.
func flatten(key string, v any, into map[string]string) {
	m, ok := v.(map[string]any)
	if !ok {
		into[key] = written(v)
		return
	}
	for k, v := range m {
		flatten(strings.TrimPrefix(key+"."+k, "."), v, into)
	}
}

// written is a value as YAML has it on one line.
func written(v any) string {
	switch v := v.(type) {
	case []any:
		items := make([]string, len(v))
		for n, item := range v {
			items[n] = written(item)
		}
		return "[" + strings.Join(items, ", ") + "]"
	case map[string]any:
		leaves := map[string]string{}
		flatten("", v, leaves)
		var items []string
		for key, value := range leaves {
			items = append(items, key+": "+value)
		}
		slices.Sort(items)
		return "{" + strings.Join(items, ", ") + "}"
	case string:
		return quoted(v)
	}
	return fmt.Sprint(v)
}
