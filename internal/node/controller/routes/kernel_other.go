//go:build !linux

package routes

import "errors"

// System fails: machines of a cluster run Linux.
func System() Kernel { return system{} }

type system struct{}

// errNoLinux answers everything here.
var errNoLinux = errors.New("routes are kept on Linux only")

func (system) Routes() ([]Route, error) { return nil, errNoLinux }
func (system) Set(Route) error          { return errNoLinux }
func (system) Remove(Route) error       { return errNoLinux }
