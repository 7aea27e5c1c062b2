package puzzle2d

import (
	"strings"
	"testing"
)

// Settings that do nothing beside others refuse a new run, or are told where they have a value by
// default; those of the default configuration are neither.
func TestSettingsThatDoNothing(t *testing.T) {
	idle := func(c interface{ Idle() error }) string {
		if err := c.Idle(); err != nil {
			return err.Error()
		}
		return ""
	}
	puzzles := func(change func(*Config)) string {
		c := DefaultConfig()
		change(&c)
		return idle(c) + strings.Join(c.notes(), "; ")
	}
	classes := func(task string, change func(*Classification)) string {
		c := DefaultClassification(task)
		change(&c)
		return idle(c)
	}
	for _, c := range []struct{ got, want string }{
		{puzzles(func(*Config) {}), ""},
		{puzzles(func(c *Config) { c.Head = HeadKWay }), ""},
		{puzzles(func(c *Config) { c.Binary, c.BinaryWeight = false, 1 }), "binary_weight and search_once are"},
		{puzzles(func(c *Config) { c.Head, c.SearchOnce = HeadKWay, true }), "binary_weight and search_once are"},
		{puzzles(func(c *Config) { c.Head, c.ColSum = HeadKWay, 1 }), "column_sum is of heads"},
		{puzzles(func(c *Config) { c.Head, c.Share = HeadKWay, 0.5 }), "share is of all"},
		{puzzles(func(c *Config) { c.InitPartial = true }), "init_partial is of weights to start from"},
		{puzzles(func(c *Config) { c.InitPartial, c.Checkpoint = true, "a" }), ""},
		{puzzles(func(c *Config) { c.Head, c.Rounds = HeadSymmetric, 5 }), "rounds 5 does nothing"},
		{puzzles(func(c *Config) { c.Head, c.PaperRounds = HeadKWay, true }), "paper_rounds does nothing: head kway"},
		{puzzles(func(c *Config) { c.Classes = 5 }), "classes 5, criterion min does nothing"},
		{puzzles(func(c *Config) { c.Head, c.Distance = HeadKWay, 2 }), "distance 2 does nothing"},
		{puzzles(func(c *Config) { c.Hidden = 7 }), "hidden 7 does nothing"},
		{classes(Position, func(*Classification) {}), ""},
		{classes(Position, func(c *Classification) { c.Crop = 100 }), "labels and rotation, and the task"},
		{classes(Rotation, func(c *Classification) { c.Crop = 100 }), ""},
		{classes(Rotation, func(c *Classification) { c.Patch = 9 }), "patch is a setting of task position, and the"},
		{classes(Labels, func(c *Classification) { c.Cell = 9 }), "cell is a setting of task position, and the"},
		{classes(Labels, func(c *Classification) { c.InitPartial = true }), "init_partial is of weights"},
	} {
		if !strings.Contains(c.got, c.want) || (c.got == "") != (c.want == "") {
			t.Errorf("said %q, want %q", c.got, c.want)
		}
	}
}
