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

// enrollment has the flags of `kops toolbox enroll`.
type enrollment struct {
	kops.EnrollOptions
	cluster, host       string
	port                int
	buildHost, register bool
}

func enroll(app *shell.App) *cobra.Command {
	var o enrollment
	c := shell.Cobra("enroll --cluster CLUSTER --instance-group GROUP --host ADDRESS", "Add one of your machines to a cluster", `
Log in to a machine over SSH, add it to the inventory of a cluster, and update the
cluster, so that the machine joins. If the machine is in the inventory already, its
data are read again, and its group may change.

If the inventory has another machine with the same host name, the command refuses,
because cloned images often share a name. --replace declares that the old host is
permanently gone, as 'kops delete host --lost' does, and that this machine replaces
it; of three control plane hosts, replace one at a time.

SSH must be able to verify the machine: its host key is in ~/.ssh/known_hosts, or
--host-key gives its fingerprint, as ssh-keygen -l prints it on the machine's console.
kops logs in with the keys of the SSH agent and of ~/.ssh, or with the files in
KOPS_SSH_KEY, separated by colons. A user other than root needs sudo without a
password.`, `
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
	c.Args = shell.NoArguments("specify the cluster with --cluster")
	f := c.Flags()
	f.StringVar(&o.cluster, "cluster", "", "name of the cluster (default --name)")
	f.StringVar(&o.Group, "instance-group", "", "instance group for the machine")
	f.StringVar(&o.host, "host", "", "name or IP address of the machine")
	f.StringVar(&o.User, "ssh-user", "root", "user for logging in")
	f.IntVar(&o.port, "ssh-port", 22, "SSH port")
	f.StringVar(&o.HostKey, "host-key", "", "fingerprint of the machine's host key (SHA256:…)")
	f.StringSliceVar(&o.PodCIDRs, "pod-cidr", nil, "pod `CIDR` of the machine, if you choose it by hand; repeatable")
	f.StringVar(&o.Replace, "replace", "", "name of a permanently lost host that this machine replaces under the same name")
	f.BoolVar(&o.buildHost, "build-host", false, "only show the Host object that would be stored")
	f.BoolVar(&o.register, "register-only", false, "only add the machine to the inventory; the next update makes it join")
	f.String("api-server", "", "accepted for compatibility; the inventory is in the state store")
	f.Bool("use-kubeconfig", false, "accepted for compatibility; the inventory is in the state store")
	return c
}

func (o enrollment) run(ctx context.Context, app *shell.App) error {
	if o.Group == "" || o.host == "" {
		return shell.Usagef("--instance-group and --host are required")
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
		app.Notef("To make it join, run: kops update cluster %s --yes\n", name)
		return nil
	}
	return update.Run(ctx, app, name, update.Request{Yes: true})
}
