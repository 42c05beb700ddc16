// Command kops-rehearse emulates a cloud on this host, and runs a command in it. It is apart from
// kops, which starts it, so that kops does not link the emulators.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"kops.local/kops/internal/cli/rehearse"
)

// version is set in a release build.
var version = "1.37.0-dev"

func main() {
	signals := make(chan os.Signal, 2) // a stop and, while that is reported, an interrupt
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) { // nohup ignores it
		signal.Notify(signals, syscall.SIGHUP)
	}
	sys := rehearse.OS(version)
	sys.Signals = signals
	os.Exit(rehearse.Run(context.Background(), sys, os.Args[1:]))
}
