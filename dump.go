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

// DumpOptions say what a dump holds.
type DumpOptions struct {
	ReachOptions
	// Resources lists what the cluster has in its cloud.
	Resources bool
	// Files collects the files for a support bundle, Objects those of Kubernetes' objects besides.
	Files, Objects bool
	// Machines is from how many machines files are collected, and MachineTime how long one may take.
	Machines    int
	MachineTime time.Duration
	// SSH logs in to the machines for their journals; nil: nobody does.
	SSH *SSHOptions
	// On receives the events of the dump.
	On On
}

// SSHOptions say how machines are logged in to.
type SSHOptions struct {
	User string
	// Agent is the socket of the user's agent, Keys are files of private keys, and Known files of known hosts.
	Agent       string
	Keys, Known []string
}

// Dump is what a cluster consists of. As JSON it is in kOps' form.
type Dump struct {
	Resources []DumpResource `json:"resources,omitempty"`
	Instances []DumpInstance `json:"instances,omitempty"`
	// Files are the files of a support bundle, by path. Values that may be secret are left out.
	Files map[string][]byte `json:"-"`
}

// DumpResource is an object of the cloud.
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

// Dump collects a support bundle of a cluster. The dump says which parts could not be read; an
// error means that there is no dump.
func (c *Client) Dump(ctx context.Context, name string, o DumpOptions) (*Dump, error) {
	told := &call{cluster: name, on: o.On}
	k, err := c.checkup(ctx, told, o.ReachOptions, pipeline.CheckupLife)
	if err != nil {
		return nil, err
	}
	seen, err := k.Look(ctx)
	if err != nil {
		return nil, err
	}
	d, files := &Dump{Instances: dumpInstances(seen, o.SSH)}, dump.Files{}
	if o.Resources {
		if d.Resources, err = c.dumpResources(ctx, told, newCluster(k.Cluster)); err != nil {
			files.Add("resources.yaml", nil, err)
			if !o.Files {
				return nil, err
			}
		}
	}
	if !o.Files {
		return d, told.phase("")
	}
	files.Add("dump.yaml", d, nil)
	c.dumpCluster(ctx, k, seen, files)
	if err := told.phase("read machines"); err != nil {
		return nil, err
	}
	dumpMachines(ctx, k, seen, o, files)
	if err := told.phase("read objects"); err != nil {
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
	return d, errors.Join(ctx.Err(), told.phase(""))
}

// dumpInstances lists the machines that were seen.
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
func (c *Client) dumpResources(ctx context.Context, told *call, cl *Cluster) ([]DumpResource, error) {
	p, err := c.planRemoval(ctx, told, cl)
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

// dumpCluster adds what the store tells, and what is wrong.
func (c *Client) dumpCluster(ctx context.Context, k *pipeline.Checkup, seen health.World, files dump.Files) {
	name := k.Cluster.Spec.Name
	files.Add("cluster.yaml", dump.Redacted(k.Cluster.Spec), nil)
	for _, g := range k.Cluster.Groups {
		files.Add("instancegroups/"+dump.Part(g.Name)+".yaml", dump.Redacted(g), nil)
	}
	done, err := c.Completed(ctx, name, UpdateOptions{})
	if err != nil {
		files.Add("completed.yaml", nil, err)
	} else {
		files.Add("completed.yaml", dump.Redacted(done.Spec), nil)
	}
	history, err := c.Clusters().Revisions(ctx, name)
	files.Add("revisions.yaml", history, err)
	found, err := c.diagnose(ctx, k, seen, DiagnoseOptions{})
	files.Add("diagnosis.yaml", found, err)
}

// journalScript tells of a machine what its platform does not.
const journalScript = `journalctl -q -o short-iso-precise -n 20000 -u kubelet -u containerd -u 'kops-*'
echo; echo '== containers'; crictl ps -a 2>&1
echo; echo '== disks'; df -h; echo; echo '== memory'; free -m; echo; echo '== processes'; ps axww -o pid,etime,rss,comm
`

// journalSize bounds what one machine may write, in bytes.
const journalSize = 64 << 20

// dumpMachines adds what machines tell: their reports, their consoles, and their journals.
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
	_ = work.Wait() // what cannot be had is told in the dump
}

func dumpMachine(ctx context.Context, k *pipeline.Checkup, m platform.Machine, s *SSHOptions, files dump.Files) {
	if k.Provider.BootRecord != nil {
		record, err := k.Provider.BootRecord(ctx, k.Session, k.Cluster.Spec, m)
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
	if len(text) > 0 { // what there is of it
		files["journal.txt"] = text
	}
}

// journal logs in to a machine, at the first of its addresses that lets it.
func journal(ctx context.Context, m platform.Machine, s *SSHOptions) ([]byte, error) {
	errs := []error{}
	for _, a := range m.Addresses {
		machine, err := ssh.Options{Agent: s.Agent, Keys: s.Keys, Known: s.Known}.Dial(ctx, ssh.Target{Address: net.JoinHostPort(a, "22"), User: s.User})
		if err != nil {
			errs = append(errs, fmt.Errorf("log in at %s: %w", a, err))
			continue
		}
		defer machine.Close() //nolint:errcheck // it was only read
		return machine.Run(ctx, journalScript, nil, journalSize)
	}
	if len(errs) == 0 {
		return nil, errors.New("the machine has no address")
	}
	return nil, errors.Join(errs...)
}
