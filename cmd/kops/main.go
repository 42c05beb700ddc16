// Command kops creates, changes and deletes Kubernetes clusters.
package main

import (
	"context"
	"log"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"k8s.io/klog/v2"

	"kops.local/kops/internal/cli"
	"kops.local/kops/internal/cli/shell"
)

// Set in a release build: its version, the SHA-256 of the index of the corresponding programs for
// machines, and the URL of the folder with the archives of releases.
var (
	version  = "1.37.0-dev"
	programs = ""
	releases = ""
)

func main() {
	signals := make(chan os.Signal, 2) // a stop and, while that is reported, an interrupt
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) { // nohup ignores it
		signal.Notify(signals, syscall.SIGHUP)
	}
	libraries := &shell.Libraries{}
	klog.SetSlogLogger(slog.New(slog.NewTextHandler(libraries, nil)))
	log.SetOutput(libraries)
	sys := shell.OS(version)
	sys.Signals, sys.Programs, sys.Releases, sys.Libraries = signals, programs, releases, libraries
	os.Exit(cli.Run(context.Background(), sys, os.Args[1:]))
}
