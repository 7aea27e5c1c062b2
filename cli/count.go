package cli

import (
	"fmt"
	"strconv"
)

// A count is a flag that is no part of the configuration: a whole number, from 0 to the most that
// makes sense.
type count struct{ n, most int }

// Set, String and Type implement [pflag.Value].
func (c *count) Set(text string) error {
	n, err := strconv.Atoi(text)
	switch {
	case err != nil:
		return fmt.Errorf("%q is not a whole number", text)
	case n < 0:
		return fmt.Errorf("want 0 or more, not %d", n)
	case n > c.most:
		return fmt.Errorf("want at most %d, not %d", c.most, n)
	}
	c.n = n
	return nil
}

func (c *count) String() string { return strconv.Itoa(c.n) }

func (*count) Type() string { return "int" }
