// Command nodeup makes a machine a member of its cluster.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// version is set when a release is built.
var version = "1.37.0-dev"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, system{Out: os.Stdout, Err: os.Stderr, Env: os.Getenv, Root: os.Geteuid() == 0}, os.Args[1:])
	stop()
	os.Exit(code)
}
