package control

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"time"

	"kops.local/kops/api"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/platform/gce/gcecloud"
	"kops.local/kops/internal/platform/gce/gcerest"
	"kops.local/kops/internal/platform/gce/vtpm"
)

const (
	// remembered is how long a list is used: the questions are of a quota that the
	// project shares, some 1500 a minute and region.
	remembered = time.Minute
	// recent is how old a list may be of which follows what is done to machines: each instance in it
	// has its user data, which makes it long.
	recent = 15 * time.Second
	// fresh is how old a list may be that lacks what is looked for.
	fresh = 5 * time.Second
	// mostTemplates bounds the memory for templates.
	mostTemplates = 1 << 10
)

// project asks Compute, and remembers its lists for a short time.
type project struct {
	api                   gcerest.Client
	name, region, cluster string
	now                   func() time.Time
	// role returns the role under which a group is in the cluster's store, or an error of
	// class fault.Gone.
	role func(ctx context.Context, group string) (api.InstanceGroupRole, error)

	mu        sync.Mutex
	all       list[[]gcerest.Instance]
	managed   map[string]list[map[string]managed] // by the path of a group, and the instance's identifier
	templates map[string]string                   // the instance group of a template, which never changes, by its path
}

// list is what Compute said at a time.
type list[T any] struct {
	of T
	at time.Time
}

// managed is an instance of a managed instance group.
type managed struct {
	ID      string `json:"id"`
	Action  string `json:"currentAction"`
	Version struct {
		Template string `json:"instanceTemplate"` // a URL
	} `json:"version"`
}

var _ vtpm.Instances = (*project)(nil)

// Instance implements vtpm.Instances.
func (p *project) Instance(ctx context.Context, zone, name string) (vtpm.Instance, error) {
	i, err := p.get(ctx, zone, name)
	if err != nil {
		return vtpm.Instance{}, err
	}
	var identity struct {
		SigningKey struct {
			Public string `json:"ekPub"`
		} `json:"signingKey"`
	}
	if err := p.api.Get(ctx, gcerest.Compute, gcerest.InstancePath(p.name, zone, name)+"/getShieldedInstanceIdentity", nil, &identity); err != nil {
		return vtpm.Instance{}, fmt.Errorf("ask for the attestation key of the instance %s: %w", name, err)
	}
	return vtpm.Instance{ID: i.ID, Maker: p.maker(i), Running: i.Status == "RUNNING", Cluster: i.Metadata.Get(gcecloud.MetadataCluster),
		Group: i.Metadata.Get(gcecloud.MetadataGroup), Names: i.Names(), Key: identity.SigningKey.Public}, nil
}

func (p *project) get(ctx context.Context, zone, name string) (gcerest.Instance, error) {
	var i gcerest.Instance
	if err := p.api.Get(ctx, gcerest.Compute, gcerest.InstancePath(p.name, zone, name), nil, &i); err != nil {
		return i, fmt.Errorf("ask for the instance %s: %w", name, err)
	}
	return i, nil
}

// createdBy is how Google names the managed instance group that made an instance.
var createdBy = regexp.MustCompile(`^projects/[^/]+/zones/([-a-z0-9]+)/instanceGroupManagers/([-a-z0-9]+)$`)

// maker is the path of the managed instance group that an instance says has made it, in its
// own zone of this project; "" where there is none.
func (p *project) maker(i gcerest.Instance) string {
	parts := createdBy.FindStringSubmatch(i.Metadata.Get(gcecloud.MetadataCreatedBy))
	if parts == nil || parts[1] != gcerest.Last(i.Zone) {
		return ""
	}
	return gcerest.ZonePath(p.name, parts[1]) + "/instanceGroupManagers/" + parts[2]
}

// Member implements vtpm.Instances: what the instance says of itself, Compute has to
// confirm, and the cluster's store that machines of the group are nodes. Bastions are not.
func (p *project) Member(ctx context.Context, i vtpm.Instance) (string, error) {
	group, err := p.made(ctx, i)
	if err != nil {
		return "", err
	}
	if _, err := p.role(ctx, group); err != nil {
		return "", fmt.Errorf("find out whether machines of the instance group %s are nodes: %w", group, err)
	}
	return group, nil
}

// made returns the instance group of the template of which a managed instance group has made an instance.
func (p *project) made(ctx context.Context, i vtpm.Instance) (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	m, err := p.member(ctx, i.Maker, i.ID, remembered)
	if err != nil {
		return "", err
	}
	if m.Version.Template == "" {
		return "", fault.New(fault.NotYet, "Compute does not tell the template of the instance yet")
	}
	return p.groupOf(ctx, m.Version.Template)
}

// member returns an instance of a managed instance group by a list that is not older than an
// age, or by a fresh one where that lacks it. The error is of class fault.Gone where no group has it.
func (p *project) member(ctx context.Context, maker, id string, age time.Duration) (managed, error) {
	if maker == "" {
		return managed{}, fault.New(fault.Gone, "no managed instance group made it")
	}
	for _, old := range []time.Duration{age, fresh} {
		all, err := p.members(ctx, maker, old)
		if err != nil {
			return managed{}, err
		}
		if m, ok := all[id]; ok {
			return m, nil
		}
	}
	return managed{}, fault.New(fault.Gone, "the managed instance group %s has it not", gcerest.Last(maker))
}

// members lists the instances of a managed instance group by their identifiers.
func (p *project) members(ctx context.Context, maker string, age time.Duration) (map[string]managed, error) {
	if l, known := p.managed[maker]; known && p.now().Sub(l.at) < age {
		return l.of, nil
	}
	found, err := gcerest.List[managed](ctx, p.api, http.MethodPost, gcerest.Compute, maker+"/listManagedInstances", "managedInstances", nil)
	if err != nil {
		return nil, fmt.Errorf("list the instances of the managed instance group %s: %w", gcerest.Last(maker), err)
	}
	all := map[string]managed{}
	for _, m := range found {
		all[m.ID] = m
	}
	if p.managed == nil {
		p.managed = map[string]list[map[string]managed]{}
	}
	p.managed[maker] = list[map[string]managed]{all, p.now()}
	return all, nil
}

// groupOf returns the instance group of a template of the cluster's.
func (p *project) groupOf(ctx context.Context, url string) (string, error) {
	path := url[max(0, strings.Index(url, "projects/")):]
	if group := p.templates[path]; group != "" {
		return group, nil
	}
	var t struct {
		Properties struct {
			Metadata gcerest.Metadatas `json:"metadata"`
		} `json:"properties"`
	}
	if err := p.api.Get(ctx, gcerest.Compute, path, nil, &t); err != nil {
		return "", fmt.Errorf("ask for the instance template %s: %w", gcerest.Last(path), err)
	}
	group := t.Properties.Metadata.Get(gcecloud.MetadataGroup)
	if t.Properties.Metadata.Get(gcecloud.MetadataCluster) != p.cluster || group == "" {
		return "", fault.New(fault.Gone, "its instance template %s is not of the cluster", gcerest.Last(path))
	}
	if p.templates == nil || len(p.templates) >= mostTemplates {
		p.templates = map[string]string{}
	}
	p.templates[path] = group
	return group, nil
}

// instances lists the cluster's instances, by a list that is not older than an age. The label
// alone might belong to a cluster whose name differs in a dot.
func (p *project) instances(ctx context.Context, age time.Duration) ([]gcerest.Instance, error) {
	if p.all.of != nil && p.now().Sub(p.all.at) < age {
		return p.all.of, nil
	}
	zones, err := p.api.Zones(ctx, p.name, p.region)
	if err != nil {
		return nil, fmt.Errorf("list the zones of %s: %w", p.region, err)
	}
	all := []gcerest.Instance{}
	for _, zone := range zones {
		found, err := p.api.Instances(ctx, p.name, zone, gcecloud.ClusterLabel, gcecloud.Label(p.cluster))
		if err != nil {
			return nil, fmt.Errorf("list the instances of %s: %w", zone, err)
		}
		for _, i := range found {
			if i.Metadata.Get(gcecloud.MetadataCluster) == p.cluster {
				all = append(all, i)
			}
		}
	}
	p.all = list[[]gcerest.Instance]{all, p.now()}
	return all, nil
}

// named returns the instance of the cluster that has a name, or an error of class fault.Gone.
func (p *project) named(ctx context.Context, name string) (gcerest.Instance, error) {
	for _, age := range []time.Duration{remembered, fresh} {
		all, err := p.instances(ctx, age)
		if err != nil {
			return gcerest.Instance{}, err
		}
		var found []gcerest.Instance
		for _, i := range all {
			if i.Name == name {
				found = append(found, i)
			}
		}
		switch {
		case len(found) == 1:
			return found[0], nil
		case len(found) > 1: // as names are unique in a zone only
			return gcerest.Instance{}, fault.New(fault.Conflict, "the instances %s of %s and %s have the same name, which a node has", name, gcerest.Last(found[0].Zone), gcerest.Last(found[1].Zone))
		}
	}
	return gcerest.Instance{}, fault.New(fault.Gone, "the cluster has no instance %s", name)
}
