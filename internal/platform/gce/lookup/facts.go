package lookup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"kops.local/kops/api"
	"kops.local/kops/internal/engine/clock"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/engine/past"
	"kops.local/kops/internal/platform/gce/gceapi"
	"kops.local/kops/internal/platform/gce/spec"
	"kops.local/kops/internal/spec/asks"
	"kops.local/kops/internal/spec/diag"
	"kops.local/kops/internal/spec/facts"
)

// Facts asks Google. What the query names and does not exist is reported as a
// diag.List with one finding for each who asked.
// What hardly ever changes is remembered in m, which may be nil; never that something
// is missing.
func Facts(ctx context.Context, c *gceapi.Clients, m past.Memo, q Query) (*facts.Facts, error) {
	a := &asker{Clients: c, past: m, query: q, project: cmp.Or(q.Project.Name, c.Project),
		got: &facts.Cloud{Region: cmp.Or(q.Region.Name, c.Region), Images: map[string]facts.Image{}},
		own: spec.Facts{Images: map[string]spec.Image{}, Families: map[string]string{}, Secondary: map[string]map[string]string{}, Quotas: map[string]float64{}}}
	if a.project == "" {
		return nil, fault.Wrap(fault.Permanent, errors.New("the project is not known"), "name it with option:Project or in spec.project (gcloud config get-value project)")
	}
	a.own.Project = a.project
	if a.got.Region == "" { // of what is nowhere there is nothing to ask
		a.query = Query{Project: q.Project}
	}
	g, ctx := errgroup.WithContext(ctx)
	for _, question := range a.questions() {
		g.Go(func() error {
			err := fault.Retry(ctx, clock.Sleep, func() error { return question(ctx) })
			if gone(err) { // a project, of which another question tells
				return nil
			}
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, fmt.Errorf("look up facts in project %s, region %s: %w", a.project, a.got.Region, err)
	}
	a.joinNetwork()
	if err := a.missing().Err(); err != nil {
		return nil, err
	}
	if err := a.got.SetOwn(a.own); err != nil {
		return nil, err
	}
	return &facts.Facts{Clouds: map[string]*facts.Cloud{string(api.CloudGCE): a.got}}, nil
}

// asker is the state of one look-up. Questions run at once; each fills fields that are its
// own, and those that several share under the lock.
type asker struct {
	*gceapi.Clients
	past    past.Memo
	query   Query
	project string
	got     *facts.Cloud
	own     spec.Facts
	found   network
	// noProject, noAccount and noRegion say that what was asked for does not exist.
	noProject, noAccount, noRegion bool
	lock                           sync.Mutex
}

// questions lists what must be asked.
func (a *asker) questions() []func(context.Context) error {
	q := []func(context.Context) error{a.account}
	add := func(wanted bool, f func(context.Context) error) {
		if wanted {
			q = append(q, f)
		}
	}
	add(a.got.Region != "", a.region)
	for _, name := range asks.Names(a.query.Images) {
		add(true, func(ctx context.Context) error { return a.image(ctx, name) })
	}
	add(len(a.query.MachineTypes)+len(a.query.Candidates) > 0, a.machineTypes)
	add(len(a.query.Accelerators) > 0, a.accelerators)
	shared := a.query.Network.Name != "" || len(a.query.Subnets) > 0
	add(shared || a.query.Ranges, a.network)
	add(shared || a.query.Ranges, a.subnets)
	add(len(a.query.Hosts) > 0, a.dnsZones)
	add(a.query.ServiceAccount.Name != "", a.serviceAccount)
	return q
}

// gone reports whether Google answered that something does not exist.
func gone(err error) bool { return fault.Is(err, fault.Gone) }

// account asks for the project, its account for machines, and its limits everywhere.
func (a *asker) account(ctx context.Context) error {
	p, err := gceapi.Got(a.Compute.Projects.Get(a.project).Context(ctx).Do())
	if gone(err) {
		a.noProject = true
		return nil
	}
	if err != nil {
		return fmt.Errorf("describe project %s: %w", a.project, err)
	}
	a.own.DefaultServiceAccount = p.DefaultServiceAccount
	a.lock.Lock()
	defer a.lock.Unlock()
	for _, l := range p.Quotas {
		if _, ok := a.own.Quotas[l.Metric]; !ok { // the region's is the nearer bound
			a.own.Quotas[l.Metric] = l.Limit
		}
	}
	return nil
}

// region asks for the region's zones and limits.
func (a *asker) region(ctx context.Context) error {
	r, err := gceapi.Got(a.Compute.Regions.Get(a.project, a.got.Region).Context(ctx).Do())
	if gone(err) {
		a.noRegion = true
		return nil
	}
	if err != nil {
		return fmt.Errorf("describe region %s: %w", a.got.Region, err)
	}
	a.got.Zones = nil
	for _, z := range r.Zones {
		a.got.Zones = append(a.got.Zones, gceapi.Name(z))
	}
	slices.Sort(a.got.Zones)
	a.lock.Lock()
	defer a.lock.Unlock()
	for _, l := range r.Quotas {
		a.own.Quotas[l.Metric] = l.Limit
	}
	return nil
}

// serviceAccount asks whether the account exists. Who may not know is not told that it does not.
func (a *asker) serviceAccount(ctx context.Context) error {
	_, err := gceapi.Got(a.IAM.Projects.ServiceAccounts.Get("projects/-/serviceAccounts/" + a.query.ServiceAccount.Name).Context(ctx).Do())
	a.noAccount = gone(err)
	if err != nil && !a.noAccount && !fault.Is(err, fault.Denied) {
		return fmt.Errorf("find service account %s: %w", a.query.ServiceAccount.Name, err)
	}
	return nil
}

// missing reports the asks that found nothing.
func (a *asker) missing() diag.List {
	var out diag.List
	absent := func(list []asks.Ask, found func(string) bool, rule, what, remedy string) {
		out = append(out, asks.Absent(list, found, rule, what, remedy)...)
	}
	never := func(string) bool { return false }
	if a.noProject {
		asked := a.query.Project
		asked.Name = a.project
		absent([]asks.Ask{asked}, never, "project-exists", "there is no such project, or it does not use Compute Engine", "check the id (gcloud projects list), and enable the API (gcloud services enable compute.googleapis.com)")
		return out
	}
	if a.noRegion {
		absent([]asks.Ask{a.query.Region}, never, "region-exists", "there is no such region", "choose one of Google's (gcloud compute regions list)")
		return out
	}
	in := " in region " + a.got.Region
	absent(a.query.Zones, func(n string) bool { return spec.RegionOf(n) != a.got.Region || slices.Contains(a.got.Zones, n) },
		"zone-exists", "there is no such zone"+in, "choose among "+strings.Join(a.got.Zones, ", "))
	absent(a.query.Images, asks.Has(a.got.Images), "image-exists", "there is no such machine image", "write project/name, or the name of one of "+a.project+" (gcloud compute images list)")
	absent(a.query.MachineTypes, asks.Has(a.got.MachineTypes), "machine-type-exists", "there is no such machine type"+in, "check the spelling, or choose a type that the region offers (gcloud compute machine-types list)")
	absent(a.query.Accelerators, asks.Has(a.own.Accelerators), "accelerator-exists", "there is no such type of GPU"+in, "choose a type that the region offers (gcloud compute accelerator-types list)")
	absent([]asks.Ask{a.query.Network}, func(string) bool { return a.found.exists }, "network-exists", "there is no such network", "check the name and the project; write a network of another project as project/name")
	absent(a.query.Subnets, asks.Has(a.got.Subnets), "subnet-exists", "there is no such subnet"+in, "check the name, and the project in spec.networkID")
	absent([]asks.Ask{a.query.ServiceAccount}, func(string) bool { return !a.noAccount }, "account-exists", "there is no such service account", "check the address (gcloud iam service-accounts list)")
	if a.found.legacy {
		absent([]asks.Ask{a.query.Network}, never, "network-legacy", "is a legacy network, which has no subnets", "name another network, or convert it (gcloud compute networks update --switch-to-custom-subnet-mode)")
	}
	return append(out, asks.NotOffered(a.query.MachineTypes, a.got.MachineTypes, "choose another type, or zones among ")...)
}
