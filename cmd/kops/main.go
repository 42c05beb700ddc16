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

// version is set when a release is built.
var version = "1.37.0-dev"

func main() {
	signals := make(chan os.Signal, 2) // a stop and, while that is told, an interrupt
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	sys := shell.OS(version)
	sys.Signals = signals
	os.Exit(cli.Run(context.Background(), sys, os.Args[1:]))
}
