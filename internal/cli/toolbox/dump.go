package toolbox

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"kops.local/kops"
	"kops.local/kops/internal/cli/shell"
	"kops.local/kops/internal/cli/validate"
	"kops.local/kops/internal/platform/ssh"
)

// dumping has the flags of `kops toolbox dump`.
type dumping struct {
	kops.DumpOptions
	dir, format, user, key string
}

func dumpCommand(app *shell.App) *cobra.Command {
	var o dumping
	c := shell.Cobra("dump [CLUSTER]", "Collect a support bundle of a cluster", `
List the machines of a cluster and its cloud resources. With --dir, also collect a
support bundle in a folder: the objects, and their completed form; the findings of
validate and doctor; the history of changes; for each machine, its boot report, its
console and, if you can log in over SSH, its journals; and the logs of the pods that
kops runs. With --k8s-resources, also collect Kubernetes objects.

Values that may be secret are left out: values of Secrets, ConfigMaps and environment
variables, contents of files, and arguments of programs that are not part of kops.
Consoles, journals and logs are copied unchanged: read them before you share them. The
files never contain keys.`, `
  kops toolbox dump cluster.example.com
  kops toolbox dump cluster.example.com --dir ./support --k8s-resources
  kops toolbox dump cluster.example.com --dir ./support --private-key ~/.ssh/id_ed25519 --ssh-user ubuntu`,
		func(ctx context.Context, args []string) error { return o.run(ctx, app, args) })
	f := c.Flags()
	f.BoolVar(&o.Resources, "cloud-resources", true, "list the cluster's cloud resources")
	f.StringVar(&o.dir, "dir", "", "folder for the files of a support bundle")
	f.BoolVar(&o.Objects, "k8s-resources", flagFrom(app, "KOPS_TOOLBOX_DUMP_K8S_RESOURCES"), "collect Kubernetes objects (default $KOPS_TOOLBOX_DUMP_K8S_RESOURCES)")
	f.IntVar(&o.Machines, "max-nodes", 500, "maximum number of machines to collect files from")
	f.DurationVar(&o.MachineTime, "node-dump-timeout", time.Minute, "how long one machine may take")
	f.StringVarP(&o.format, "output", "o", shell.YAML, "format: yaml or json")
	shell.Complete(c, "output", shell.YAML, shell.JSON)
	f.StringVar(&o.key, "private-key", "~/.ssh/id_rsa", "private key file for logging in to machines")
	f.StringVar(&o.user, "ssh-user", "ubuntu", "user for logging in to machines")
	validate.ReachFlags(c, &o.ReachOptions)
	c.ValidArgsFunction = shell.CompleteCluster(app)
	return c
}

// flagFrom reads the default of a boolean flag from a variable.
func flagFrom(app *shell.App, variable string) bool {
	if app.Env == nil {
		return false
	}
	on, err := strconv.ParseBool(app.Env(variable))
	return err == nil && on
}

func (o dumping) run(ctx context.Context, app *shell.App, args []string) error {
	if err := shell.CheckFormat(o.format, shell.YAML, shell.JSON); err != nil {
		return err
	}
	if o.Objects && o.dir == "" && app.Running.Flags().Changed("k8s-resources") {
		return shell.Usagef("--k8s-resources needs a folder for its files: specify --dir")
	}
	validate.Reach(app, &o.ReachOptions)
	name, client, err := app.Open(ctx, args)
	if err != nil {
		return err
	}
	o.Files, o.On = o.dir != "", app.On(nil)
	if o.Files {
		if err := empty(o.dir); err != nil {
			return err
		}
		o.SSH = o.access(app)
	}
	d, err := client.Dump(ctx, name, o.DumpOptions)
	if err != nil {
		return err
	}
	if !o.Files {
		return app.PrintAs(o.format, d, nil)
	}
	if err := shell.WriteFiles(o.dir, d.Files, 0o700, 0o600); err != nil {
		return err
	}
	missing := 0
	for path := range d.Files {
		if strings.HasSuffix(path, ".error") {
			missing++
		}
	}
	app.Printf("%s holds %d files of %s", o.dir, len(d.Files), name)
	if missing > 0 {
		app.Printf("; %d of them, *.error, explain why a file is missing", missing)
	}
	app.Printf("\n")
	return nil
}

// access returns how to log in to machines; nil if the user has no key.
func (o dumping) access(app *shell.App) *kops.SSHOptions {
	known := ssh.Environment(app.Env)
	key := o.key
	if rest, below := strings.CutPrefix(key, "~/"); below {
		key = filepath.Join(cmp.Or(app.Env("HOME"), "/"), rest)
	}
	if _, err := os.Stat(key); err != nil && known.Agent == "" && !app.Running.Flags().Changed("private-key") {
		return nil
	}
	return &kops.SSHOptions{User: o.user, Agent: known.Agent, Keys: []string{key}, Known: known.Known}
}

// empty rejects a folder that is not empty: a dump is passed on as a whole.
func empty(dir string) error {
	entries, err := os.ReadDir(dir)
	if err == nil && len(entries) > 0 {
		return fmt.Errorf("%s is not empty; specify a new folder, so that you share no other files", dir)
	}
	return nil
}
