package cli

import (
	"fmt"
	"strconv"
)

// A count is a flag that is no part of the configuration: a whole number, 0 or more.
type count int

// Set, String and Type implement [pflag.Value].
func (c *count) Set(text string) error {
	n, err := strconv.Atoi(text)
	if err != nil {
		return fmt.Errorf("%q is not a whole number", text)
	}
	if n < 0 {
		return fmt.Errorf("want 0 or more, not %d", n)
	}
	*c = count(n)
	return nil
}

func (c *count) String() string { return strconv.Itoa(int(*c)) }

func (*count) Type() string { return "int" }
