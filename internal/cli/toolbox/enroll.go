package toolbox

import (
	"context"
	"net"
	"strconv"

	"github.com/spf13/cobra"

	"kops.local/kops"
	"kops.local/kops/internal/cli/shell"
	"kops.local/kops/internal/cli/update"
)

// enrollment are the flags of `kops toolbox enroll`.
type enrollment struct {
	kops.EnrollOptions
	cluster, host       string
	port                int
	buildHost, register bool
}

func enroll(app *shell.App) *cobra.Command {
	var o enrollment
	c := shell.Cobra("enroll --cluster CLUSTER --instance-group GROUP --host ADDRESS", "Make a machine of yours a member of a cluster", `
Log in to a machine over SSH, take it into the inventory of a cluster, and update the
cluster, which makes the machine a member. A machine that is in the inventory already
is read again, and may change its group.

Another machine that has the name of a host in the inventory is refused, since cloned
images often share a name. --replace says that the host is gone for good, as 'kops delete
host --lost' does, and that this machine takes its place; of three hosts of the control
plane, replace one at a time.

The machine must be known: its host key is in ~/.ssh/known_hosts, or --host-key says its
fingerprint, as ssh-keygen -l shows it on the console of the machine. Keys to log in with
are those of the agent and of ~/.ssh; or the files that KOPS_SSH_KEY lists, separated by
colons. A user other than root needs sudo without a password.`, `
  kops toolbox enroll --cluster cluster.example.com --instance-group nodes-main --host 10.0.0.21

  # node1 broke, and a new machine of that name takes its place
  kops toolbox enroll --cluster cluster.example.com \
    --instance-group nodes-main --host 10.0.0.22 --replace node1

  # several at first, and then all at once
  kops toolbox enroll --cluster cluster.example.com \
    --instance-group control-plane-main --host 10.0.0.11 --register-only
  kops toolbox enroll --cluster cluster.example.com \
    --instance-group nodes-main --host 10.0.0.21 --register-only
  kops update cluster cluster.example.com --yes --admin`,
		func(ctx context.Context, _ []string) error { return o.run(ctx, app) })
	c.Args = shell.NoArguments("name the cluster with --cluster")
	f := c.Flags()
	f.StringVar(&o.cluster, "cluster", "", "name of the cluster (default --name)")
	f.StringVar(&o.Group, "instance-group", "", "instance group that the machine is to belong to")
	f.StringVar(&o.host, "host", "", "name or IP address of the machine")
	f.StringVar(&o.User, "ssh-user", "root", "who logs in")
	f.IntVar(&o.port, "ssh-port", 22, "port of SSH")
	f.StringVar(&o.HostKey, "host-key", "", "fingerprint of the machine's host key (SHA256:…)")
	f.StringSliceVar(&o.PodCIDRs, "pod-cidr", nil, "range of the machine's pods, where it is chosen by hand; repeatable")
	f.StringVar(&o.Replace, "replace", "", "name of a host that is gone for good, whose name this machine has")
	f.BoolVar(&o.buildHost, "build-host", false, "only show the Host object that would be kept")
	f.BoolVar(&o.register, "register-only", false, "only take the machine into the inventory; an update makes it a member")
	f.String("api-server", "", "accepted and not needed: the inventory is in the state store")
	f.Bool("use-kubeconfig", false, "accepted and not needed: the inventory is in the state store")
	return c
}

func (o enrollment) run(ctx context.Context, app *shell.App) error {
	if o.Group == "" || o.host == "" {
		return shell.Usagef("--instance-group and --host are needed")
	}
	var args []string
	if o.cluster != "" {
		args = []string{o.cluster}
	}
	name, client, err := app.Open(ctx, args)
	if err != nil {
		return err
	}
	o.Address = net.JoinHostPort(o.host, strconv.Itoa(o.port))
	if o.buildHost {
		h, err := client.Hosts().Find(ctx, name, o.EnrollOptions)
		if err != nil {
			return err
		}
		return app.PrintObjects(shell.YAML, h)
	}
	h, err := client.Hosts().Enroll(ctx, name, o.EnrollOptions)
	if err != nil {
		return err
	}
	app.Notef("%s is the host %s of the instance group %s\n", o.host, h.Name, o.Group)
	if o.register {
		app.Notef("Make it a member with: kops update cluster %s --yes\n", name)
		return nil
	}
	return update.Run(ctx, app, name, update.Request{Yes: true})
}
