// Package get implements `kops get`.
package get

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"kops.local/kops"
	"kops.local/kops/api"
	"kops.local/kops/internal/cli/shell"
	"kops.local/kops/internal/engine/fault"
)

// Command returns the command.
func Command(app *shell.App) *cobra.Command {
	g := &subcommand{App: app}
	c := g.all("get [CLUSTER]", "Show objects of the state store")
	c.AddCommand(g.all("all", "Show a cluster and all of its objects"), g.clusters(), g.groups(), g.hosts(), g.instances(), g.keys(), g.secrets(), g.keypairs(), g.certificates(), g.revisions(), g.assets())
	c.PersistentFlags().StringVarP(&g.format, "output", "o", shell.Table, "format: table, yaml or json")
	shell.Complete(c, "output", shell.Table, shell.YAML, shell.JSON)
	return c
}

type subcommand struct {
	*shell.App
	format string
}

func (g *subcommand) check() error {
	return shell.CheckFormat(g.format, shell.Table, shell.YAML, shell.JSON)
}

func (g *subcommand) all(use, short string) *cobra.Command {
	var c *cobra.Command
	c = shell.Cobra(use, short, short+":\nthe Cluster, its InstanceGroups and additional objects.", `
  kops get all --name cluster.example.com
  kops get all --name cluster.example.com -o yaml > cluster.yaml`,
		func(ctx context.Context, args []string) error {
			if err := g.check(); err != nil {
				return err
			}
			cl, err := g.cluster(ctx, args)
			mistake := (*shell.UsageError)(nil)
			if fault.Is(err, fault.Gone) || errors.As(err, &mistake) {
				if len(args) > 0 && g.Meant(c, args[0]) != "" { // the word was not meant as a cluster
					return g.UnknownCommand(c, args[0])
				}
			}
			if err != nil {
				return err
			}
			if g.format != shell.Table {
				return g.PrintObjects(g.format, cl.Objects()...)
			}
			return g.sections(cl)
		})
	c.ValidArgsFunction = shell.CompleteCluster(g.App)
	return c
}

func (g *subcommand) cluster(ctx context.Context, args []string) (*kops.Cluster, error) {
	name, client, err := g.Open(ctx, args)
	if err != nil {
		return nil, err
	}
	cl, err := client.Clusters().Get(ctx, name)
	if err == nil {
		g.Warn(cl.Warnings)
	}
	return cl, err
}

func (g *subcommand) sections(cl *kops.Cluster) error {
	g.Printf("Cluster\n")
	if err := g.clusterTable([]*api.Cluster{cl.Spec}); err != nil {
		return err
	}
	if len(cl.Groups) > 0 {
		g.Printf("\nInstance Groups\n")
		if err := g.groupTable(cl.Spec, cl.Groups); err != nil {
			return err
		}
	}
	if len(cl.Hosts) > 0 {
		g.Printf("\nHosts\n")
		if err := g.hostTable(cl.Hosts); err != nil {
			return err
		}
	}
	if len(cl.Additional) == 0 {
		return nil
	}
	g.Printf("\nAddon Objects\n")
	var rows [][]string
	for _, o := range cl.Additional {
		rows = append(rows, []string{o.GetName(), o.GetObjectKind().GroupVersionKind().Kind})
	}
	return g.PrintTable([]string{"NAME", "KIND"}, rows)
}

func (g *subcommand) clusters() *cobra.Command {
	var full, explain bool
	var facts string
	c := shell.Cobra("clusters [NAME]...", "Show clusters", `
Show all clusters in the state store, or only the named ones. With --full, show the
completed spec, with the values that kops fills in. With --explain, show who set each
value of the completed spec: the user, or which rule and why.`, `
  kops get clusters
  kops get cluster cluster.example.com -o yaml
  kops get cluster cluster.example.com --full -o yaml
  kops get cluster cluster.example.com --full --explain`,
		func(ctx context.Context, args []string) error {
			if err := g.check(); err != nil {
				return err
			}
			if len(args) == 0 && g.Name != "" {
				args = []string{g.Name}
			}
			client, err := g.Client(ctx)
			if err != nil {
				return err
			}
			if full || explain {
				return g.fullObjects(ctx, client, args, facts, explain)
			}
			list, warnings, err := client.Clusters().List(ctx, args...)
			g.Warn(warnings)
			if fault.Is(err, fault.Gone) && len(args) == 0 && g.format != shell.Table {
				return printList[string](g, nil, nil, nil) // for programs, an empty list is not an error
			}
			if err != nil {
				return err
			}
			if g.format == shell.Table {
				return g.clusterTable(list)
			}
			return g.PrintObjects(g.format, objects(list)...)
		})
	c.Aliases = []string{"cluster"}
	c.Flags().BoolVar(&full, "full", false, "show the completed spec")
	c.Flags().BoolVar(&explain, "explain", false, "show who set each value of the completed spec")
	c.Flags().StringVar(&facts, "facts", "", "facts file with everything that kops would look up for --full")
	c.ValidArgsFunction = shell.CompleteClusters(g.App)
	return c
}

func (g *subcommand) fullObjects(ctx context.Context, client *kops.Client, names []string, facts string, explain bool) error {
	name, err := g.ClusterName(names)
	if err != nil {
		return err
	}
	var o kops.UpdateOptions
	if facts != "" {
		if o.Facts, err = g.App.ReadFacts(ctx, facts); err != nil {
			return err
		}
	}
	done, err := client.Completed(ctx, name, o)
	if err != nil {
		return err
	}
	if explain {
		return printList(g, done.Explain(), []string{"OBJECT", "FIELD", "VALUE", "SET BY", "WHY"},
			func(p kops.Explanation) []string { return []string{p.Object, p.Path, p.Value, p.Rule, p.Why} })
	}
	format := g.format
	if format == shell.Table {
		format = shell.YAML
	}
	return g.PrintObjects(format, done.Spec)
}

func (g *subcommand) clusterTable(list []*api.Cluster) error {
	var rows [][]string
	for _, c := range list {
		var zones []string
		for _, s := range c.Spec.Networking.Subnets {
			if s.Zone != "" && !slices.Contains(zones, s.Zone) {
				zones = append(zones, s.Zone)
			}
		}
		slices.Sort(zones)
		rows = append(rows, []string{c.Name, string(c.CloudProviderID()), strings.Join(zones, ",")})
	}
	return g.PrintTable([]string{"NAME", "CLOUD", "ZONES"}, rows)
}

func (g *subcommand) groups() *cobra.Command {
	c := shell.Cobra("instancegroups [NAME]...", "Show instance groups", "Show all instance groups of a cluster, or only the named ones.", `
  kops get instancegroups --name cluster.example.com
  kops get ig nodes-us-east-1c --name cluster.example.com -o yaml`,
		func(ctx context.Context, args []string) error {
			if err := g.check(); err != nil {
				return err
			}
			cl, err := g.cluster(ctx, nil)
			if err != nil {
				return err
			}
			list, err := cl.SelectGroups(args...)
			if err != nil {
				return err
			}
			if g.format == shell.Table {
				return g.groupTable(cl.Spec, list)
			}
			return g.PrintObjects(g.format, objects(list)...)
		})
	c.Aliases = []string{"instancegroup", "ig"}
	c.ValidArgsFunction = shell.CompleteGroups(g.App)
	return c
}

func (g *subcommand) groupTable(c *api.Cluster, list []*api.InstanceGroup) error {
	number := func(n *int32) string {
		if n == nil {
			return "-"
		}
		return strconv.Itoa(int(*n))
	}
	var rows [][]string
	for _, ig := range list {
		zones := slices.Clone(ig.Spec.Zones)
		for _, s := range c.Spec.Networking.Subnets {
			if slices.Contains(ig.Spec.Subnets, s.Name) && s.Zone != "" && !slices.Contains(zones, s.Zone) {
				zones = append(zones, s.Zone)
			}
		}
		rows = append(rows, []string{ig.Name, string(ig.Spec.Role), ig.Spec.MachineType, number(ig.Spec.MinSize), number(ig.Spec.MaxSize), strings.Join(zones, ",")})
	}
	return g.PrintTable([]string{"NAME", "ROLE", "MACHINETYPE", "MIN", "MAX", "ZONES"}, rows)
}

func (g *subcommand) hosts() *cobra.Command {
	c := shell.Cobra("hosts [CLUSTER]", "Show enrolled hosts", "Show the hosts that were enrolled in a cluster.", `
  kops get hosts --name cluster.example.com
  kops get hosts --name cluster.example.com -o yaml`,
		func(ctx context.Context, args []string) error {
			if err := g.check(); err != nil {
				return err
			}
			cl, err := g.cluster(ctx, args)
			if err != nil {
				return err
			}
			if g.format == shell.Table {
				return g.hostTable(cl.Hosts)
			}
			return g.PrintObjects(g.format, objects(cl.Hosts)...)
		})
	c.Aliases = []string{"host"}
	c.ValidArgsFunction = shell.CompleteCluster(g.App)
	return c
}

func (g *subcommand) hostTable(list []*api.Host) error {
	var rows [][]string
	for _, h := range list {
		rows = append(rows, []string{h.Name, h.Spec.InstanceGroup, h.Annotations[api.AnnotationAddress], h.Annotations[api.AnnotationSSH]})
	}
	return g.PrintTable([]string{"NAME", "INSTANCEGROUP", "ADDRESS", "SSH"}, rows)
}

func (g *subcommand) keys() *cobra.Command {
	c := shell.Cobra("sshpublickeys [CLUSTER]", "Show SSH public keys", "Show the fingerprints of the SSH public keys that a cluster's machines accept.", `
  kops get sshpublickeys --name cluster.example.com`,
		func(ctx context.Context, args []string) error {
			return list(ctx, g, args, sshKeys, []string{"ID"}, func(k sshKey) []string { return []string{k.ID} })
		})
	c.Aliases = []string{"sshpublickey", "ssh"}
	c.ValidArgsFunction = shell.CompleteCluster(g.App)
	return c
}

// sshKey is a key as programs receive it.
type sshKey struct {
	ID        string `json:"id"` // the fingerprint
	PublicKey string `json:"publicKey"`
}

func sshKeys(client *kops.Client, ctx context.Context, cluster string) ([]sshKey, error) {
	all, err := client.Keys().List(ctx, cluster)
	var out []sshKey
	for _, k := range all {
		out = append(out, sshKey{k.Fingerprint, strings.TrimSpace(k.Text)})
	}
	return out, err
}

// list prints a list of a cluster's items from the client.
func list[T any](ctx context.Context, g *subcommand, args []string, of func(*kops.Client, context.Context, string) ([]T, error), header []string, row func(T) []string) error {
	if err := g.check(); err != nil {
		return err
	}
	name, client, err := g.Open(ctx, args)
	if err != nil {
		return err
	}
	all, err := of(client, ctx, name)
	if err != nil {
		return err
	}
	return printList(g, all, header, row)
}

// printList prints a list, as a table with a row for each.
func printList[T any](g *subcommand, all []T, header []string, row func(T) []string) error {
	if all == nil {
		all = []T{} // an empty list instead of null
	}
	return g.PrintAs(g.format, all, func() error {
		var rows [][]string
		for _, x := range all {
			rows = append(rows, row(x))
		}
		return g.PrintTable(header, rows)
	})
}

func objects[T api.Object](list []T) []api.Object {
	out := make([]api.Object, len(list))
	for i, o := range list {
		out[i] = o
	}
	return out
}
