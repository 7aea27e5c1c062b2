package safetext

import (
	"fmt"
	"reflect"
	"testing"
)

func TestOnce(t *testing.T) {
	texts := []string{"a folder: no scan"}
	for n := range 5 {
		texts = append(texts, fmt.Sprintf("%d volumes: choose one of them with --volume", n+2))
	}
	for range 4 {
		texts = append(texts, "holds labels by its values; --pairs says of which scan")
	}
	texts = append(
		texts,
		"x: rare; an advice that three texts have in common",
		"y: an advice that three texts have in common",
		"z: an advice that three texts have in common",
	)
	rest, of, endings := Once(texts)
	wantRest := []string{
		"a folder: no scan",
		"2 volumes",
		"3 volumes",
		"4 volumes",
		"5 volumes",
		"6 volumes",
		"",
		"",
		"",
		"",
		texts[10],
		texts[11],
		texts[12],
	}
	wantOf := []int{-1, 0, 0, 0, 0, 0, 1, 1, 1, 1, -1, -1, -1}
	want := []Ending{
		{"choose one of them with --volume", 5},
		{"holds labels by its values; --pairs says of which scan", 4},
	}
	if !reflect.DeepEqual(rest, wantRest) || !reflect.DeepEqual(of, wantOf) || !reflect.DeepEqual(endings, want) {
		t.Errorf("%q\n%v\n%v", rest, of, endings)
	}
	if rest, of, endings := Once(nil); len(rest) != 0 || len(of) != 0 || endings != nil {
		t.Errorf("%q, %v, %v", rest, of, endings)
	}
}
