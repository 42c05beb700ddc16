// Command kops creates, changes and deletes Kubernetes clusters.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"kops.local/kops/internal/cli"
	"kops.local/kops/internal/cli/shell"
)

// Set when a release is built: its version, the SHA-256 of the index of the programs for
// machines that belong to it, and the URL of the folder with the archives of releases.
var (
	version  = "1.37.0-dev"
	programs = ""
	releases = ""
)

func main() {
	signals := make(chan os.Signal, 2) // a stop and, while that is told, an interrupt
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) { // as nohup has it
		signal.Notify(signals, syscall.SIGHUP)
	}
	sys := shell.OS(version)
	sys.Signals, sys.Programs, sys.Releases = signals, programs, releases
	os.Exit(cli.Run(context.Background(), sys, os.Args[1:]))
}
