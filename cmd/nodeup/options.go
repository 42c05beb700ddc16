package main

import (
	"errors"
	"flag"
	"fmt"

	"kops.local/kops/internal/node/agent/report"
	"kops.local/kops/internal/node/agent/run"
)

const usage = `nodeup makes a machine a member of its cluster.

It reads who the machine is from the file of --conf, gets the machine's
configuration, and brings packages, files, certificates and services into the
state that the configuration describes. A further run changes only what differs.

  nodeup --conf /opt/kops/conf/kube_env.yaml                         do it
  nodeup --conf /opt/kops/conf/kube_env.yaml --dry-run               show what would be done
  nodeup --conf /opt/kops/conf/kube_env.yaml --install-systemd-unit  do it now and at every start
  nodeup --conf /opt/kops/conf/kube_env.yaml --renew                 only renew certificates, as a timer does twice a day
  nodeup --conf /opt/kops/conf/kube_env.yaml --watch-node            restart the kubelet if its node is gone, and report the machine's configuration on its node
  nodeup --conf /opt/kops/conf/kube_env.yaml --apply                 apply the configuration that the node requests in place (annotation kops.k8s.io/apply-config)

Flags:
`

// parse adds the command line options to a world.
func parse(args []string, o run.Options) (run.Options, error) {
	var target string
	out := o.Err
	f := flag.NewFlagSet("nodeup", flag.ContinueOnError)
	f.SetOutput(out)
	f.Usage = func() {
		fmt.Fprint(out, usage) //nolint:errcheck // there is nowhere to report it
		f.PrintDefaults()
	}
	f.StringVar(&o.Conf, "conf", "", "`file` with the boot configuration")
	f.StringVar(&o.Cache, "cache", "/var/cache/nodeup", "`folder` for fetched files")
	f.IntVar(&o.Retries, "retries", -1, "how many times a failed run is repeated; -1 means no limit")
	f.StringVar(&target, "target", "direct", "direct, or dryrun to only show what would be done")
	f.BoolVar(&o.DryRun, "dry-run", false, "only show what would be done")
	f.BoolVar(&o.DryRun, "dryrun", false, "the same as --dry-run")
	f.BoolVar(&o.Renew, "renew", false, "only renew certificates that expire soon, and restart the components that read them")
	f.BoolVar(&o.WatchNode, "watch-node", false, "watch the machine's node until the program is stopped: restart the kubelet if the node is gone")
	f.BoolVar(&o.Apply, "apply", false, "apply the configuration that the node requests, in place")
	f.BoolVar(&o.Install, "install-systemd-unit", false, "write a unit that runs nodeup at every start, start it, and end")
	f.StringVar(&o.Root, "root", "/", "`folder` to use as the root file system; unless it is /, no program is run and no service is started")
	f.StringVar(&o.Report, "report", report.File, "`file` for the boot report, below the root")
	f.Int("v", 0, "accepted for compatibility; has no effect")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	switch {
	case f.NArg() > 0:
		return o, fmt.Errorf("unexpected argument %q", f.Arg(0))
	case o.Conf == "":
		return o, errors.New("--conf is needed: the file with the boot configuration")
	case target != "direct" && target != "dryrun":
		return o, fmt.Errorf("--target must be direct or dryrun, got %q", target)
	}
	o.DryRun = o.DryRun || target == "dryrun"
	chosen := 0
	for _, is := range []bool{o.Renew, o.WatchNode, o.Apply, o.DryRun, o.Install} {
		if is {
			chosen++
		}
	}
	if chosen > 1 {
		return o, errors.New("use only one of --renew, --watch-node, --apply, --dry-run and --install-systemd-unit")
	}
	return o, nil
}
