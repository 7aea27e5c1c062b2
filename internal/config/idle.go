package config

import "errors"

// An IdleError says that settings do nothing beside others.
type IdleError struct {
	Keys   []string // of those that do nothing
	Advice string
}

func (e *IdleError) Error() string { return e.Advice }

// Separate lists what errors.Join has joined; none of nil.
func Separate(err error) []error {
	if err == nil {
		return nil
	}
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []error{err}
	}
	var all []error
	for _, one := range joined.Unwrap() {
		all = append(all, Separate(one)...)
	}
	return all
}

// IdleKeys are the keys of settings that do nothing, where the error names them.
func IdleKeys(err error) []string {
	if e, ok := errors.AsType[*IdleError](err); ok {
		return e.Keys
	}
	return nil
}
