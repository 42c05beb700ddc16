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
	"kops.local/kops/internal/platform/incluster/roster"
	"kops.local/kops/internal/platform/rest"
)

// maxTemplates bounds the cache of templates.
const maxTemplates = 1 << 10

// project queries Compute Engine, and caches its lists for a short time: requests count towards a
// quota of the project, about 1500 per minute and region.
type project struct {
	api                   gcerest.Client
	name, region, cluster string
	now                   func() time.Time
	// role returns a group's role according to the cluster's store, or an error of class
	// fault.Gone.
	role func(ctx context.Context, group string) (api.InstanceGroupRole, error)

	list *roster.List[gcerest.Instance]

	mu        sync.Mutex
	managed   map[string]managedList // by the path of the managed instance group
	templates map[string]string      // the instance group of a template, which never changes, by the template's path
}

// managedList holds the instances of a managed instance group by ID, and when they were received.
type managedList struct {
	items    map[string]managedInstance
	received time.Time
}

// managedInstance is an instance of a managed instance group.
type managedInstance struct {
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
		return vtpm.Instance{}, fmt.Errorf("get the attestation key of the instance %s: %w", name, err)
	}
	return vtpm.Instance{ID: i.ID, Manager: p.managerPath(i), Running: i.Status == "RUNNING", Cluster: i.Metadata.Get(gcecloud.MetadataCluster),
		Group: i.Metadata.Get(gcecloud.MetadataGroup), Names: i.Names(), Key: identity.SigningKey.Public}, nil
}

func (p *project) get(ctx context.Context, zone, name string) (gcerest.Instance, error) {
	var i gcerest.Instance
	if err := p.api.Get(ctx, gcerest.Compute, gcerest.InstancePath(p.name, zone, name), nil, &i); err != nil {
		return i, fmt.Errorf("get the instance %s: %w", name, err)
	}
	return i, nil
}

// createdBy matches the value with which Google names the managed instance group that created an
// instance.
var createdBy = regexp.MustCompile(`^projects/[^/]+/zones/([-a-z0-9]+)/instanceGroupManagers/([-a-z0-9]+)$`)

// managerPath returns the path of the managed instance group that, according to its metadata, created an
// instance, in the instance's zone of this project; "" if there is none.
func (p *project) managerPath(i gcerest.Instance) string {
	parts := createdBy.FindStringSubmatch(i.Metadata.Get(gcecloud.MetadataCreatedBy))
	if parts == nil || parts[1] != gcerest.BaseName(i.Zone) {
		return ""
	}
	return gcerest.ZonePath(p.name, parts[1]) + "/instanceGroupManagers/" + parts[2]
}

// Member implements vtpm.Instances: Compute Engine must confirm what the instance claims, and the
// group's machines must be nodes according to the cluster's store, unlike bastions.
func (p *project) Member(ctx context.Context, i vtpm.Instance) (string, error) {
	group, err := p.templateGroup(ctx, i)
	if err != nil {
		return "", err
	}
	if _, err := p.role(ctx, group); err != nil {
		return "", fmt.Errorf("find out whether machines of the instance group %s are nodes: %w", group, err)
	}
	return group, nil
}

// templateGroup returns the instance group of the template from which a managed instance group created an
// instance.
func (p *project) templateGroup(ctx context.Context, i vtpm.Instance) (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	m, err := p.findMember(ctx, i.Manager, i.ID, roster.Remembered)
	if err != nil {
		return "", err
	}
	if m.Version.Template == "" {
		return "", fault.New(fault.NotYet, "Compute Engine does not report the template of the instance yet")
	}
	return p.groupOf(ctx, m.Version.Template)
}

// findMember returns an instance of a managed instance group from a list that is younger than age, or
// from a fresh one if that does not contain it. The error has class fault.Gone if the group does
// not contain it.
func (p *project) findMember(ctx context.Context, maker, id string, age time.Duration) (managedInstance, error) {
	if maker == "" {
		return managedInstance{}, fault.New(fault.Gone, "it was not created by a managed instance group")
	}
	for _, old := range []time.Duration{age, roster.Fresh} {
		all, err := p.members(ctx, maker, old)
		if err != nil {
			return managedInstance{}, err
		}
		if m, ok := all[id]; ok {
			return m, nil
		}
	}
	return managedInstance{}, fault.New(fault.Gone, "the managed instance group %s does not contain it", gcerest.BaseName(maker))
}

// members lists the instances of a managed instance group by ID.
func (p *project) members(ctx context.Context, maker string, age time.Duration) (map[string]managedInstance, error) {
	if l, known := p.managed[maker]; known && p.now().Sub(l.received) < age {
		return l.items, nil
	}
	found, err := gcerest.List[managedInstance](ctx, p.api, gcerest.Compute, rest.Request{Method: http.MethodPost, Path: maker + "/listManagedInstances"}, "managedInstances")
	if err != nil {
		return nil, fmt.Errorf("list the instances of the managed instance group %s: %w", gcerest.BaseName(maker), err)
	}
	all := map[string]managedInstance{}
	for _, m := range found {
		all[m.ID] = m
	}
	if p.managed == nil {
		p.managed = map[string]managedList{}
	}
	p.managed[maker] = managedList{all, p.now()}
	return all, nil
}

// groupOf returns the instance group of one of the cluster's templates.
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
		return "", fmt.Errorf("get the instance template %s: %w", gcerest.BaseName(path), err)
	}
	group := t.Properties.Metadata.Get(gcecloud.MetadataGroup)
	if t.Properties.Metadata.Get(gcecloud.MetadataCluster) != p.cluster || group == "" {
		return "", fault.New(fault.Gone, "its instance template %s does not belong to the cluster", gcerest.BaseName(path))
	}
	if p.templates == nil || len(p.templates) >= maxTemplates {
		p.templates = map[string]string{}
	}
	p.templates[path] = group
	return group, nil
}

// providerPrefix is the prefix of provider IDs, which the cloud controller sets:
// gce://PROJECT/ZONE/INSTANCE.
const providerPrefix = "gce://"

// withList gives the project an empty cache of the cluster's instances.
func (p *project) withList() *project {
	p.list = &roster.List[gcerest.Instance]{Load: p.instances, Now: p.now}
	return p
}

// instances lists the cluster's instances. The label alone is not enough, because another cluster's
// name may differ only in a dot.
func (p *project) instances(ctx context.Context) ([]roster.Listed[gcerest.Instance], error) {
	zones, err := p.api.Zones(ctx, p.name, p.region)
	if err != nil {
		return nil, fmt.Errorf("list the zones of %s: %w", p.region, err)
	}
	var all []roster.Listed[gcerest.Instance]
	for _, zone := range zones {
		found, err := p.api.Instances(ctx, p.name, zone, gcecloud.ClusterLabel, gcecloud.Label(p.cluster))
		if err != nil {
			return nil, fmt.Errorf("list the instances of %s: %w", zone, err)
		}
		for _, i := range found {
			if i.Metadata.Get(gcecloud.MetadataCluster) == p.cluster {
				all = append(all, roster.Listed[gcerest.Instance]{Machine: p.machine(i), Own: i})
			}
		}
	}
	return all, nil
}

// machine describes an instance. Its ID is ZONE/NAME/ID; a managed instance group gives an instance's
// replacement the same name, and so possibly the name of an old node.
func (p *project) machine(i gcerest.Instance) roster.Machine {
	zone := gcerest.BaseName(i.Zone)
	m := roster.Machine{ID: zone + "/" + i.Name + "/" + i.ID, Node: i.Name, Group: i.Metadata.Get(gcecloud.MetadataGroup), Created: i.Created,
		Status: i.Status, Place: zone, KeepsName: true, ProviderID: providerPrefix + p.name + "/" + zone + "/" + i.Name}
	switch i.Status {
	case "PROVISIONING", "STAGING":
		m.State = roster.Starting
	case "RUNNING":
		m.State = roster.Running
	default:
		m.State = roster.Stopped
	}
	return m
}
