package kops

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"kops.local/kops/internal/ops/dump"
	"kops.local/kops/internal/ops/health"
	"kops.local/kops/internal/pipeline"
	"kops.local/kops/internal/platform"
	"kops.local/kops/internal/platform/ssh"
)

// DumpOptions configure a dump.
type DumpOptions struct {
	ReachOptions
	// Resources lists the cluster's resources in its cloud.
	Resources bool
	// Files collects the files for a support bundle, Objects also the files of Kubernetes objects.
	Files, Objects bool
	// Machines is the maximum number of machines from which files are collected, and MachineTime the time limit per machine.
	Machines    int
	MachineTime time.Duration
	// SSH logs in to the machines to read their journals; nil skips the journals.
	SSH *SSHOptions
	// On receives the events of the dump.
	On On
}

// SSHOptions configure logins to machines.
type SSHOptions struct {
	User string
	// Agent is the socket of the user's SSH agent, Keys are private key files, and Known are known_hosts files.
	Agent       string
	Keys, Known []string
}

// Dump is the content of a cluster. Its JSON has kOps' format.
type Dump struct {
	Resources []DumpResource `json:"resources,omitempty"`
	Instances []DumpInstance `json:"instances,omitempty"`
	// Files are the files of a support bundle, by path. Values that may be secret are omitted.
	Files map[string][]byte `json:"-"`
}

// DumpResource is a resource of the cloud.
type DumpResource struct {
	Type   string `json:"type"`
	Name   string `json:"name"`
	ID     string `json:"id,omitempty"`
	Shared bool   `json:"shared,omitempty"`
}

// DumpInstance is a machine.
type DumpInstance struct {
	Name             string   `json:"name"`
	Group            string   `json:"instanceGroup,omitempty"`
	PublicAddresses  []string `json:"publicAddresses,omitempty"`
	PrivateAddresses []string `json:"privateAddresses,omitempty"`
	Roles            []string `json:"roles,omitempty"`
	SSHUser          string   `json:"sshUser,omitempty"`
}

// Dump collects a support bundle of a cluster. The dump lists the parts that could not be read; an
// error means that there is no dump.
func (c *Client) Dump(ctx context.Context, name string, o DumpOptions) (*Dump, error) {
	progress := &reporter{cluster: name, on: o.On}
	k, err := c.checkup(ctx, progress, o.ReachOptions, pipeline.CheckupLife)
	if err != nil {
		return nil, err
	}
	seen, err := k.Observe(ctx)
	if err != nil {
		return nil, err
	}
	d, files := &Dump{Instances: dumpInstances(seen, o.SSH)}, dump.Files{}
	if o.Resources {
		if d.Resources, err = c.dumpResources(ctx, progress, newCluster(k.Cluster)); err != nil {
			files.Add("resources.yaml", nil, err)
			if !o.Files {
				return nil, err
			}
		}
	}
	if !o.Files {
		return d, progress.phase("")
	}
	files.Add("dump.yaml", d, nil)
	c.dumpCluster(ctx, k, seen, files)
	if err := progress.phase("read machines"); err != nil {
		return nil, err
	}
	dumpMachines(ctx, k, seen, o, files)
	if err := progress.phase("read objects"); err != nil {
		return nil, err
	}
	if client, err := k.Kubernetes(ctx); err != nil {
		files.Add("kubernetes", nil, err)
	} else {
		files.Logs(ctx, client)
		if o.Objects {
			files.Objects(ctx, client)
		}
	}
	d.Files = files
	return d, errors.Join(ctx.Err(), progress.phase(""))
}

// dumpInstances lists the observed machines.
func dumpInstances(w health.World, s *SSHOptions) []DumpInstance {
	roles := map[string]string{}
	for _, g := range w.Groups {
		roles[g.Name] = role(g)
	}
	var out []DumpInstance
	for _, g := range w.Machines {
		for _, m := range g.Machines {
			i := DumpInstance{Name: m.Name, Group: m.Group}
			if r := roles[m.Group]; r != "" {
				i.Roles = []string{r}
			}
			if s != nil {
				i.SSHUser = s.User
			}
			for _, a := range m.Addresses {
				if ip, err := netip.ParseAddr(a); err == nil && !ip.IsPrivate() && !ip.IsLoopback() {
					i.PublicAddresses = append(i.PublicAddresses, a)
				} else {
					i.PrivateAddresses = append(i.PrivateAddresses, a)
				}
			}
			out = append(out, i)
		}
	}
	return out
}

// dumpResources lists everything that belongs to the cluster.
func (c *Client) dumpResources(ctx context.Context, progress *reporter, cl *Cluster) ([]DumpResource, error) {
	p, err := c.planRemoval(ctx, progress, cl)
	if err != nil {
		return nil, err
	}
	out := []DumpResource{}
	for _, step := range p.Plan.Steps {
		r := DumpResource{Type: step.Address.Kind, Name: step.Address.Name, Shared: step.Shared}
		for _, k := range p.Kinds {
			if k.KindName() == r.Type && step.Have != nil {
				k.Schema().Identities(step.Have, func(id string) { r.ID = id })
			}
		}
		out = append(out, r)
	}
	slices.SortFunc(out, func(a, b DumpResource) int {
		return cmp.Or(cmp.Compare(a.Type, b.Type), cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID))
	})
	return out, nil
}

// dumpCluster adds the contents of the store, and the problems of the cluster.
func (c *Client) dumpCluster(ctx context.Context, k *pipeline.Checkup, seen health.World, files dump.Files) {
	name := k.Cluster.Spec.Name
	files.Add("cluster.yaml", k.Cluster.Spec, nil)
	for _, g := range k.Cluster.Groups {
		files.Add("instancegroups/"+dump.Part(g.Name)+".yaml", g, nil)
	}
	done, err := c.Completed(ctx, name, UpdateOptions{})
	if err != nil {
		files.Add("completed.yaml", nil, err)
	} else {
		files.Add("completed.yaml", done.Spec, nil)
	}
	history, err := c.Clusters().Revisions(ctx, name)
	files.Add("revisions.yaml", history, err)
	found, err := c.diagnose(ctx, k, seen, DiagnoseOptions{})
	files.Add("diagnosis.yaml", found, err)
}

// journalScript collects what a machine's platform does not report.
const journalScript = `journalctl -q -o short-iso-precise -n 20000 -u kubelet -u containerd -u 'kops-*'
echo; echo '== containers'; crictl ps -a 2>&1
echo; echo '== disks'; df -h; echo; echo '== memory'; free -m; echo; echo '== processes'; ps axww -o pid,etime,rss,comm
`

// journalSize is the maximum output of one machine, in bytes.
const journalSize = 64 << 20

// dumpMachines adds the files of machines: their reports, their consoles, and their journals.
func dumpMachines(ctx context.Context, k *pipeline.Checkup, w health.World, o DumpOptions, files dump.Files) {
	var all []platform.Machine
	for _, g := range w.Machines {
		all = append(all, g.Machines...)
	}
	var mu sync.Mutex
	var work errgroup.Group
	work.SetLimit(8)
	for _, m := range all[:min(len(all), o.Machines)] {
		work.Go(func() error {
			limited, cancel := context.WithTimeout(ctx, o.MachineTime)
			defer cancel()
			own := dump.Files{}
			dumpMachine(limited, k, m, o.SSH, own)
			mu.Lock()
			defer mu.Unlock()
			for path, text := range own {
				files["machines/"+dump.Part(m.Name)+"/"+path] = text
			}
			return nil
		})
	}
	_ = work.Wait() // the dump lists what is not available
}

func dumpMachine(ctx context.Context, k *pipeline.Checkup, m platform.Machine, s *SSHOptions, files dump.Files) {
	if k.Provider.Fleet.BootRecord != nil {
		record, err := k.Provider.Fleet.BootRecord(ctx, k.Session, k.Cluster.Spec, m)
		if err != nil {
			files.Add("console.txt", nil, err)
		}
		if len(record.Report) > 0 {
			files["report.json"] = record.Report
		}
		if len(record.Console) > 0 {
			files["console.txt"] = record.Console
		}
	}
	if s == nil {
		return
	}
	text, err := journal(ctx, m, s)
	if err != nil {
		files.Add("journal.txt", nil, err)
	}
	if len(text) > 0 { // as far as available
		files["journal.txt"] = text
	}
}

// journal logs in to a machine, at the first of its addresses that accepts the connection.
func journal(ctx context.Context, m platform.Machine, s *SSHOptions) ([]byte, error) {
	errs := []error{}
	for _, a := range m.Addresses {
		machine, err := ssh.Options{Agent: s.Agent, Keys: s.Keys, Known: s.Known}.Dial(ctx, ssh.Target{Address: net.JoinHostPort(a, "22"), User: s.User})
		if err != nil {
			errs = append(errs, fmt.Errorf("log in at %s: %w", a, err))
			continue
		}
		defer machine.Close() //nolint:errcheck // only read
		return machine.Run(ctx, journalScript, nil, journalSize)
	}
	if len(errs) == 0 {
		return nil, errors.New("the machine has no address")
	}
	return nil, errors.Join(errs...)
}
