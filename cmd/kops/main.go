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
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := cli.Run(ctx, shell.OS(version), os.Args[1:])
	stop()
	os.Exit(code)
}
