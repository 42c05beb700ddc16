package metal

import (
	"context"
	_ "embed"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"kops.local/kops/api"
	"kops.local/kops/internal/contract/paths"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/platform/metal/onhost"
	"kops.local/kops/internal/platform/ssh"
)

// Host is a host of the inventory as a member of a cluster.
type Host struct {
	Cluster string `res:"forbid"`
	Name    string `res:"forbid"`
	Group   string `res:"replace"`
	// Boot is the script that makes the host a member; a changed one is run in place. If only
	// the hash of the node configuration differs, a member does not run it: it takes the
	// configuration when its node requests it, see package inplace.
	Boot resource.Content
	// State is the manifest of the control plane's files, and Folder is where they are,
	// both here and on the host; empty for workers.
	State  resource.Content
	Folder string `res:"replace"`
	// Peers are the addresses of the control plane, and Home is the one whose backup
	// folder the etcd managers share; empty for workers.
	Peers []string
	Home  string
	// Disks are folders for etcd members.
	Disks []string `res:"writeonly"`

	ID string `res:"out,id" out:"id"`
}

var hosts = resource.Kind[Host, *client]{
	Name: "metal_host", Direct: true, API: apiName,
	Group:  func(h *Host) string { return h.Group },
	MadeOf: []string{"Group", "Boot", "State", "Folder"},
	Key:    func(h *Host) string { return h.Name },
	List:   listHosts,
	Create: createHost,
	Update: []resource.Setter[Host, *client]{
		{Fields: []string{"State"}, Set: setState}, {Fields: []string{"Peers", "Home"}, Set: setPeers}, {Fields: []string{"Boot"}, Set: setBoot},
	},
	Holds:  func(h *Host) string { return describeData(h) },
	Delete: func(ctx context.Context, c *client, h *Host) error { return c.reset(ctx, h.Cluster, h.Name) },
}

// describeData describes what is deleted with a host.
func describeData(h *Host) string {
	if len(h.Peers) > 0 {
		return "a member of etcd, and its data"
	}
	return ""
}

// listHosts reads the records of all hosts of the inventory concurrently.
func listHosts(ctx context.Context, c *client, s resource.Scope) ([]*Host, error) {
	found := make([]*Host, len(c.inventory))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(16)
	for i, h := range c.inventory {
		group.Go(func() error {
			r, ok, err := c.read(ctx, h.Name)
			if fault.Is(err, fault.NotYet) { // retrying is left to the user, who may know better
				err = fault.Wrap(fault.Permanent, err, fault.Remedy(err))
			}
			if err != nil || !ok {
				return err
			}
			if r.Cluster != s.Cluster {
				return foreignError(h.Name, r.Cluster)
			}
			found[i] = &Host{Cluster: r.Cluster, Name: h.Name, Group: r.Group, Boot: resource.Digested(r.Boot), State: contentWithDigest(r.State), Folder: r.Folder, Peers: r.Peers, Home: r.Home, ID: h.Name}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(found, func(h *Host) bool { return h == nil }), nil
}

// createHost makes a host a member. Its record is written last, so that an interrupted
// creation is repeated; parts that exist already are left as they are.
func createHost(ctx context.Context, c *client, h *Host) error {
	if err := c.checkOwner(ctx, h); err != nil {
		return err
	}
	for _, d := range h.Disks {
		if _, err := c.run(ctx, h.Name, `mkdir -p "$root"`+ssh.Quote(d), nil); err != nil {
			return fmt.Errorf("create the disk %s of the host %s: %w", d, h.Name, err)
		}
	}
	if h.Folder != "" {
		if err := c.copy(ctx, h.Name, h.Folder, h.State); err != nil {
			return err
		}
	}
	if err := c.writePeers(ctx, h); err != nil {
		return err
	}
	if err := c.start(ctx, h); err != nil {
		return err
	}
	h.ID = h.Name
	return c.updateRecord(ctx, h, func(r *record) { *r = recordOf(h) })
}

// checkOwner returns an error for a host that belongs to another cluster.
func (c *client) checkOwner(ctx context.Context, h *Host) error {
	r, ok, err := c.read(ctx, h.Name)
	if err == nil && ok && r.Cluster != h.Cluster {
		err = foreignError(h.Name, r.Cluster)
	}
	return err
}

// start runs the boot script of a host.
func (c *client) start(ctx context.Context, h *Host) error {
	script, known := h.Boot.Value().Known()
	if !known {
		return fault.New(fault.Permanent, "the boot script of the host %s is not known", h.Name)
	}
	return c.boot(ctx, h.Name, script)
}

// writePeers writes the addresses of the control plane to one of its hosts.
func (c *client) writePeers(ctx context.Context, h *Host) error {
	if len(h.Peers) == 0 {
		return nil
	}
	return c.writeJSON(ctx, h.Name, onhost.Peers, onhost.ControlPlane{Addresses: h.Peers, Home: h.Home})
}

//go:embed created.sh
var createdScript string

// markCreated records on a host that the etcd clusters were created once, before it may become the
// home of the backups: they then never start again without their data.
func (c *client) markCreated(ctx context.Context, h *Host) error {
	if _, err := c.run(ctx, h.Name, "cluster="+ssh.Quote(h.Cluster)+" folder="+ssh.Quote(h.Folder)+"\n"+createdScript, nil); err != nil {
		return fmt.Errorf("mark the etcd clusters of the host %s as created: %w", h.Name, err)
	}
	return nil
}

// digest returns the digest of a content, or "" if it is empty.
func digest(c resource.Content) string {
	if text, _ := c.Value().Known(); text == "" {
		return ""
	}
	digest, _ := c.Digest()
	return digest
}

// contentWithDigest returns the content with a digest.
func contentWithDigest(digest string) resource.Content {
	if digest == "" {
		return resource.Content{}
	}
	return resource.Digested(digest)
}

func recordOf(h *Host) record {
	return record{Cluster: h.Cluster, Group: h.Group, Boot: digest(h.Boot), Setup: setupDigest(h.Boot), State: digest(h.State), Folder: h.Folder, Peers: h.Peers, Home: h.Home}
}

// updateRecord changes the record of a host.
func (c *client) updateRecord(ctx context.Context, h *Host, change func(*record)) error {
	r, _, err := c.read(ctx, h.Name)
	if err != nil {
		return err
	}
	change(&r)
	return c.writeJSON(ctx, h.Name, onhost.Record, r)
}

func setState(ctx context.Context, c *client, _, want *Host) error {
	if want.Folder != "" {
		if err := c.copy(ctx, want.Name, want.Folder, want.State); err != nil {
			return err
		}
	}
	return c.updateRecord(ctx, want, func(r *record) { r.State = digest(want.State) })
}

func setPeers(ctx context.Context, c *client, _, want *Host) error {
	if err := c.markCreated(ctx, want); err != nil {
		return err
	}
	if err := c.writePeers(ctx, want); err != nil {
		return err
	}
	return c.updateRecord(ctx, want, func(r *record) { r.Peers, r.Home = want.Peers, want.Home })
}

func setBoot(ctx context.Context, c *client, _, want *Host) error {
	same, err := c.canUpdateInPlace(ctx, want)
	if err == nil && !same {
		err = c.start(ctx, want)
	}
	if err != nil {
		return err
	}
	return c.updateRecord(ctx, want, func(r *record) { r.Boot, r.Setup = digest(want.Boot), setupDigest(want.Boot) })
}

// canUpdateInPlace reports whether a host is a member for which only the hash of the node
// configuration in the boot script has changed.
func (c *client) canUpdateInPlace(ctx context.Context, h *Host) (bool, error) {
	r, _, err := c.read(ctx, h.Name)
	if err != nil || r.Setup == "" || r.Setup != setupDigest(h.Boot) {
		return false, err
	}
	out, err := c.run(ctx, h.Name, `[ ! -e "$root`+paths.Running+`" ] || echo member`, nil)
	return strings.TrimSpace(string(out)) == "member", err
}

// hashLine matches the line of a boot script that contains the hash of the node configuration.
var hashLine = regexp.MustCompile(`(?m)^NodeupConfigHash: .*$`)

// setupDigest returns the digest of a boot script without that hash.
func setupDigest(boot resource.Content) string {
	text, _ := boot.Value().Known()
	return digest(resource.Text(resource.Lit(hashLine.ReplaceAllString(text, ""))))
}

// address returns the address at which others reach a host.
func address(h *api.Host) string { return h.Annotations[api.AnnotationAddress] }
