package lookup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"kops.local/kops/api"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/engine/past"
	"kops.local/kops/internal/platform"
	"kops.local/kops/internal/platform/gce/gceapi"
	"kops.local/kops/internal/platform/gce/spec"
	"kops.local/kops/internal/spec/asks"
	"kops.local/kops/internal/spec/diag"
	"kops.local/kops/internal/spec/facts"
)

// Facts queries Google. If something that the query names does not exist, the error is a diag.List
// with one finding for each ask. What hardly ever changes is cached in m, which may be nil; it is
// never cached that something does not exist.
func Facts(ctx context.Context, c *gceapi.Clients, m past.Memo, q Query) (*facts.Facts, error) {
	a := &resolver{Clients: c, past: m, query: q, project: cmp.Or(q.Project.Name, c.Project),
		facts: &facts.Cloud{Region: cmp.Or(q.Region.Name, c.Region), Images: map[string]facts.Image{}},
		own:   spec.Facts{Images: map[string]spec.Image{}, Families: map[string]string{}, Secondary: map[string]map[string]string{}, Quotas: map[string]float64{}}}
	if a.project == "" {
		return nil, fault.Wrap(fault.Permanent, errors.New("no project is set"), "set it with option:Project or in spec.project (gcloud config get-value project)")
	}
	a.own.Project = a.project
	if a.facts.Region == "" { // without a region, only the project can be queried
		a.query = Query{Project: q.Project}
	}
	questions := a.lookups()
	for i, question := range questions {
		questions[i] = func(ctx context.Context) error { return fault.IgnoreGone(question(ctx)) } // the project, which another question reports
	}
	if err := platform.AskAll(ctx, questions); err != nil {
		return nil, fmt.Errorf("look up facts in project %s, region %s: %w", a.project, a.facts.Region, err)
	}
	a.deriveRanges()
	return asks.Answer(api.CloudGCE, a.facts, a.own, a.missingFindings())
}

// resolver is the state of one lookup. Questions run concurrently; each sets its own fields, and
// shared fields under the lock.
type resolver struct {
	*gceapi.Clients
	past    past.Memo
	query   Query
	project string
	facts   *facts.Cloud
	own     spec.Facts
	found   network
	// noProject, noAccount and noRegion report that it does not exist.
	noProject, noAccount, noRegion bool
	lock                           sync.Mutex
}

// lookups returns the questions to ask.
func (a *resolver) lookups() []func(context.Context) error {
	q := []func(context.Context) error{a.account}
	add := func(wanted bool, f func(context.Context) error) {
		if wanted {
			q = append(q, f)
		}
	}
	add(a.facts.Region != "", a.region)
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

// isNotFound reports whether Google responded that something does not exist.
func isNotFound(err error) bool { return fault.Is(err, fault.Gone) }

// account reads the project, the default account of its machines, and its global quotas.
func (a *resolver) account(ctx context.Context) error {
	p, err := gceapi.Result(a.Compute.Projects.Get(a.project).Context(ctx).Do())
	if isNotFound(err) {
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
		if _, ok := a.own.Quotas[l.Metric]; !ok { // the region's limit takes precedence
			a.own.Quotas[l.Metric] = l.Limit
		}
	}
	return nil
}

// region reads the region's zones and quotas.
func (a *resolver) region(ctx context.Context) error {
	r, err := gceapi.Result(a.Compute.Regions.Get(a.project, a.facts.Region).Context(ctx).Do())
	if isNotFound(err) {
		a.noRegion = true
		return nil
	}
	if err != nil {
		return fmt.Errorf("describe region %s: %w", a.facts.Region, err)
	}
	a.facts.Zones = nil
	for _, z := range r.Zones {
		a.facts.Zones = append(a.facts.Zones, gceapi.Name(z))
	}
	slices.Sort(a.facts.Zones)
	a.lock.Lock()
	defer a.lock.Unlock()
	for _, l := range r.Quotas {
		a.own.Quotas[l.Metric] = l.Limit
	}
	return nil
}

// serviceAccount checks whether the account exists. If the caller may not read it, it is assumed to
// exist.
func (a *resolver) serviceAccount(ctx context.Context) error {
	_, err := gceapi.Result(a.IAM.Projects.ServiceAccounts.Get("projects/-/serviceAccounts/" + a.query.ServiceAccount.Name).Context(ctx).Do())
	a.noAccount = isNotFound(err)
	if err != nil && !a.noAccount && !fault.Is(err, fault.Denied) {
		return fmt.Errorf("find service account %s: %w", a.query.ServiceAccount.Name, err)
	}
	return nil
}

// missingFindings reports the asks for which nothing was found.
func (a *resolver) missingFindings() diag.List {
	var out diag.List
	absent := func(list []asks.Reference, found func(string) bool, rule, what, remedy string) {
		out = append(out, asks.Missing(list, found, rule, what, remedy)...)
	}
	never := func(string) bool { return false }
	if a.noProject {
		asked := a.query.Project
		asked.Name = a.project
		absent([]asks.Reference{asked}, never, "project-exists", "there is no such project, or it does not use Compute Engine", "check the id (gcloud projects list), and enable the API (gcloud services enable compute.googleapis.com)")
		return out
	}
	if a.noRegion {
		absent([]asks.Reference{a.query.Region}, never, "region-exists", "there is no such region", "choose a region of Google Cloud (gcloud compute regions list)")
		return out
	}
	in := " in region " + a.facts.Region
	absent(a.query.Zones, func(n string) bool { return spec.RegionOf(n) != a.facts.Region || slices.Contains(a.facts.Zones, n) },
		"zone-exists", "there is no such zone"+in, "choose among "+strings.Join(a.facts.Zones, ", "))
	absent(a.query.Images, asks.Has(a.facts.Images), "image-exists", "there is no such machine image", "use project/name, or the name of an image in "+a.project+" (gcloud compute images list)")
	absent(a.query.MachineTypes, asks.Has(a.facts.MachineTypes), "machine-type-exists", "there is no such machine type"+in, "check the spelling, or choose a type that the region offers (gcloud compute machine-types list)")
	absent(a.query.Accelerators, asks.Has(a.own.Accelerators), "accelerator-exists", "there is no such type of GPU"+in, "choose a type that the region offers (gcloud compute accelerator-types list)")
	absent([]asks.Reference{a.query.Network}, func(string) bool { return a.found.exists }, "network-exists", "there is no such network", "check the name and the project; for a network in another project, use project/name")
	absent(a.query.Subnets, asks.Has(a.facts.Subnets), "subnet-exists", "there is no such subnet"+in, "check the name, and the project in spec.networkID")
	absent([]asks.Reference{a.query.ServiceAccount}, func(string) bool { return !a.noAccount }, "account-exists", "there is no such service account", "check the address (gcloud iam service-accounts list)")
	if a.found.legacy {
		absent([]asks.Reference{a.query.Network}, never, "network-legacy", "is a legacy network, which has no subnets", "use another network, or convert it (gcloud compute networks update --switch-to-custom-subnet-mode)")
	}
	return append(out, asks.NotOffered(a.query.MachineTypes, a.facts.MachineTypes, "choose another type, or zones among ")...)
}
