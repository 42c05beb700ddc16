// Command kubernetes builds the programs of a cluster, for machines that cannot reach the sites
// where releases are published: from their Go modules the programs of Kubernetes, etcd,
// containerd, runc, the CNI plugins, CoreDNS and agnhost; and from packages of the host's Debian
// the additional contents of a kube-proxy image.
//
//	kubernetes [-cache DIR] [-arch ARCH] [-cloud NAME] [-network NAME] [-addons NAME,…] [-only NAME,…] VERSION
//
// With the name of a cloud, of a pod network or of add-ons, their additional programs are built, too.
//
// Results are kept as DIR/NAME-VERSION-ARCH/bin/PROGRAM with the SHA-256 next
// to it, or .../rootfs; the file `done` means that the folder is complete. The
// folders are printed to standard output, progress to standard error. If one
// source fails, the others are still built.
//
// It must not know kops, nor how the programs are used.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	cache := flag.String("cache", defaultCache(), "folder in which to keep what was built")
	arch := flag.String("arch", runtime.GOARCH, "architecture to build for")
	cloud := flag.String("cloud", "", "cloud to build additional programs for, such as aws; empty means none")
	network := flag.String("network", "", "pod network to build the agents of, such as cilium; empty means none")
	addons := flag.String("addons", "", "add-ons to build, such as metrics-server,cert-manager; empty means none")
	only := flag.String("only", "", "what to build, such as etcd,coredns or etcd-v3.7.0; empty means everything")
	flag.Parse()
	if flag.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "usage: kubernetes [-cache DIR] [-arch ARCH] [-cloud NAME] [-network NAME] [-addons NAME,…] [-only NAME,…] VERSION, such as 1.36.3")
		os.Exit(1)
	}
	all, err := sourcesFor(flag.Arg(0), *cloud, *network, *addons)
	var chosen []source
	if err == nil {
		chosen, err = choose(all, *only)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
	if failed := buildAll(ctx, *cache, *arch, chosen); len(failed) > 0 {
		fmt.Fprintf(os.Stderr, "\n%d of %d failed:\n", len(failed), len(chosen))
		for _, err := range failed {
			fmt.Fprintln(os.Stderr, err)
		}
		os.Exit(1)
	}
}

func defaultCache() string {
	dir, err := os.UserCacheDir()
	if err != nil {
		return ".build"
	}
	return filepath.Join(dir, "kops", "build")
}

// buildAll builds one source after the other and returns the errors of those that failed.
func buildAll(ctx context.Context, cache, arch string, all []source) []error {
	var failed []error
	begin := time.Now()
	for i, s := range all {
		start := time.Now()
		say := func(format string, args ...any) {
			text := fmt.Sprintf(format, args...)
			fmt.Fprintf(os.Stderr, "[%d/%d %5s] %s: %s\n", i+1, len(all), time.Since(begin).Round(time.Second), s, text)
		}
		dir, fresh, err := build(ctx, cache, arch, &s, say)
		switch {
		case ctx.Err() != nil:
			return append(failed, fmt.Errorf("%s: %w", s, context.Cause(ctx)))
		case err != nil:
			failed = append(failed, fmt.Errorf("%s: %w", s, err))
			say("failed after %s", time.Since(start).Round(time.Second))
			continue
		case fresh:
			say("built in %s", time.Since(start).Round(time.Second))
		}
		fmt.Println(dir)
	}
	return failed
}
