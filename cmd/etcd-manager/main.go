// Command etcd-manager runs one member of an etcd cluster: it finds the managers
// of the other members, and with them forms the cluster, replaces lost members,
// takes back-ups and restores them, and changes the version of etcd. It accepts the
// flags of kOps' etcd-manager, so that it works with the same manifests.
//
// It must not know how any of that is done: it turns flags and environment into
// options for internal/node/etcd, and runs it.
package main

import (
	"errors"

	"github.com/spf13/pflag"

	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/node/etcd/run"
	"kops.local/kops/internal/platform/nodes"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := manage(ctx, os.Args[1:], os.Environ())
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "etcd-manager:", err)
		if remedy := fault.Remedy(err); remedy != "" {
			fmt.Fprintln(os.Stderr, "  "+remedy)
		}
		os.Exit(1)
	}
}

// manage is the program.
func manage(ctx context.Context, args, environment []string) error {
	o, err := parse(args, environment)
	if errors.Is(err, pflag.ErrHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	o.Platforms, o.Out = nodes.All(), os.Stdout
	return run.Manager(ctx, *o)
}
