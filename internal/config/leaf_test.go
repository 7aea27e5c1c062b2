package config

import (
	"reflect"
	"strings"
	"testing"
)

// A whole number that begins with a zero is octal to some: it is refused. Other bases say so.
func TestLeadingZerosAreRefused(t *testing.T) {
	for text, want := range map[string]int64{"100": 100, "0": 0, "-0": 0, "-7": -7, "0x10": 16, "0o17": 15,
		"1_000": 1000, "0100": -1, "-010": -1, "00": -1, "08": -1, "0_1": -1} {
		var n int64
		var u uint32
		for _, v := range []reflect.Value{reflect.ValueOf(&n).Elem(), reflect.ValueOf(&u).Elem()} {
			if v.Kind() == reflect.Uint32 && strings.HasPrefix(text, "-") {
				continue
			}
			err := setScalar(v, text)
			if want == -1 {
				if err == nil || !strings.Contains(err.Error(), "begins with a zero") {
					t.Errorf("%s: %v, %v", text, v, err)
				}
			} else if got := v.Convert(reflect.TypeFor[int64]()).Int(); err != nil || got != want {
				t.Errorf("%s: %d, %v", text, got, err)
			}
		}
	}
}
