//go:build !linux

package routes

import "errors"

// System returns a table that always fails: machines of a cluster run Linux.
func System() Kernel { return system{} }

type system struct{}

// errNoLinux is the result of every operation here.
var errNoLinux = errors.New("routes are supported on Linux only")

func (system) Routes() ([]Route, error) { return nil, errNoLinux }
func (system) Set(Route) error          { return errNoLinux }
func (system) Remove(Route) error       { return errNoLinux }
