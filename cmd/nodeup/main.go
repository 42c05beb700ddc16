// Command nodeup makes a machine a member of its cluster.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/node/agent/run"
	"kops.local/kops/internal/platform/nodes"
)

// version is set when a release is built.
var version = "1.37.0-dev"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := nodeup(ctx, run.Options{Version: version, Platforms: nodes.All(), Out: os.Stdout, Err: os.Stderr, Env: os.Getenv, Privileged: os.Geteuid() == 0}, os.Args[1:])
	stop()
	os.Exit(code)
}

// nodeup is the program; it returns the exit code.
func nodeup(ctx context.Context, world run.Options, args []string) int {
	o, err := parse(args, world)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err == nil {
		err = run.Nodeup(ctx, o)
	}
	if err == nil {
		return 0
	}
	fmt.Fprintf(world.Err, "Error: %v\n", err) //nolint:errcheck // there is nowhere to report it
	if r := fault.Remedy(err); r != "" && !strings.Contains(err.Error(), r) {
		fmt.Fprintf(world.Err, "%s\n", r) //nolint:errcheck // there is nowhere to report it
	}
	return 1
}
