// Package platform says what a platform is to the rest of kops: a struct of
// capabilities, of which a nil one means "not supported".
//
// It must not know any platform; each is a folder beside this file, and is in the list of package providers.
package platform

import (
	"context"
	"time"

	"kops.local/kops/api"
	"kops.local/kops/internal/contract/storekeys"
	"kops.local/kops/internal/engine/graph"
	"kops.local/kops/internal/engine/past"
	"kops.local/kops/internal/engine/render/terraform"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/platform/rehearsal"
	"kops.local/kops/internal/platform/ssh"
	"kops.local/kops/internal/platform/traits"
	"kops.local/kops/internal/spec/catalogue"
	"kops.local/kops/internal/spec/complete"
	"kops.local/kops/internal/spec/facts"
	"kops.local/kops/internal/spec/newcluster"
	"kops.local/kops/internal/spec/validate"
)

// Platform is what a platform is without a connection to it: traits as data, and rules
// that run in named places of completion, validation and the description of new clusters.
type Platform struct {
	traits.Traits
	Complete complete.Rules
	Validate validate.Rules
	New      newcluster.Rules
	// Stub makes the spec of a cluster of which only the name and the region are known,
	// enough to find its resources; nil: they cannot be found without its objects.
	Stub func(c *api.Cluster, region string)
	// CheckFacts checks the facts that only this platform has; nil: it has none.
	CheckFacts func(*facts.Cloud) error
}

// ForComplete is the platform as completion takes it.
func (p *Platform) ForComplete() complete.Platform {
	return complete.Platform{Traits: &p.Traits, Rules: p.Complete}
}

// ForValidate is the platform as validation takes it.
func (p *Platform) ForValidate() validate.Platform {
	return validate.Platform{Traits: &p.Traits, Rules: p.Validate}
}

// ForNew is the platform as the description of a new cluster takes it.
func (p *Platform) ForNew() newcluster.Platform {
	return newcluster.Platform{Traits: &p.Traits, Rules: p.New}
}

// Provider is a platform and how it is reached. One of which nothing but the Platform is
// there is known to specs, and makes no clusters yet.
type Provider struct {
	Platform
	// Remote says that its machines are not this host, and read no folder of it.
	Remote bool
	// Kinds lists its resources, each after the kinds it may refer to.
	Kinds []resource.Any
	// Limits bounds the calls under way at once, by API name.
	Limits map[string]int
	// Connect opens a session. It should make no request.
	Connect func(context.Context, Config) (*Session, error)
	// Region returns where a cluster is; empty where the platform has no regions.
	Region func(*api.Cluster) (string, error)
	// Facts asks the platform for all that completing and modelling a cluster needs.
	Facts func(context.Context, *Session, *api.Cluster, []*api.InstanceGroup) (*facts.Facts, error)
	// SetFacts tells a session what was looked up, or read from a file; nil: it needs nothing.
	SetFacts func(*Session, *facts.Facts) error
	// NewClusterFacts asks the platform for what choosing the spec of a new cluster needs.
	NewClusterFacts func(context.Context, *Session, newcluster.Options, newcluster.World) (*facts.Facts, error)
	// Shared lists what a cluster uses and does not own, so that a deletion names and keeps it.
	Shared func(*api.Cluster) ([]resource.Node, error)
	// Model adds the platform's resources to a graph, which holds the managed files already.
	Model func(Model, *graph.Graph) error
	// Terraform returns the parts of a Terraform document besides the graph; nil: no Terraform.
	Terraform func(Model, *graph.Graph) (terraform.Document, error)
	// Endpoint finds the address of the API's load balancer of an existing cluster; nil: there are none.
	Endpoint func(context.Context, *Session, *api.Cluster) (string, error)
	// Machines finds the machines of the instance groups, all in as few calls as the platform
	// allows; nil: the platform cannot tell. A group that it does not know is left out.
	Machines func(context.Context, *Session, *api.Cluster, []*api.InstanceGroup) ([]MachineGroup, error)
	// Enroll finds out who a machine of the user is, and makes it able to prove that; nil: the
	// platform makes its machines itself. It changes nothing else on the machine.
	Enroll func(context.Context, *Session, Enrollment) (*api.Host, error)
	// Release ends all that a cluster runs on an enrolled machine.
	Release func(context.Context, *Session, *api.Cluster, *api.Host) error
	// CanRehearse reports what this host lacks to play the platform, before anything is made; nil: nothing is needed.
	CanRehearse func() error
	// Rehearse plays the platform on a stage of this host; nil: it cannot be played.
	Rehearse func(context.Context, rehearsal.Stage, rehearsal.Options) (*rehearsal.Play, error)
	// Stage opens a stage on this host for platforms to be played on; nil: its machines are elsewhere.
	Stage func(context.Context, rehearsal.HouseOptions) (rehearsal.House, error)
	// Roll is what replacing machines needs.
	Roll Roll
	// Room returns for how many more machines of each group there is room, for the groups of which
	// that is known; nil: the platform cannot tell.
	Room func(context.Context, *Session, *api.Cluster, []*api.InstanceGroup) ([]Room, error)
	// BootRecord reads a machine's report on its start; nil: the platform cannot tell.
	BootRecord func(context.Context, *Session, *api.Cluster, Machine) (BootRecord, error)
}

// As sets target to the platform, where it points to one.
func (p Provider) As(target any) bool {
	t, ok := target.(*Provider)
	if ok {
		*t = p
	}
	return ok
}

// Enrollment says which machine of the user is to belong to a cluster.
type Enrollment struct {
	Cluster *api.Cluster
	Group   *api.InstanceGroup
	ssh.Target
	// PodCIDRs are the ranges of its pods, where they are chosen by hand.
	PodCIDRs []string
}

// MachineGroup is an instance group as its platform has it.
type MachineGroup struct {
	// Name is the instance group's; empty for machines that belong to none.
	Name string
	// Target is how many machines the platform is to keep.
	Target   int
	Machines []Machine
	// Trouble is the group's obstacle, in the platform's words, such as why machines are missing;
	// empty when nothing is known. It fails a validation.
	Trouble string
}

// Machine is one machine of a cluster, as its platform shows it.
type Machine struct {
	// Name is the platform's own, such as the ID of an instance; Group is its instance group.
	Name, Group string
	// Node is the name under which it joins the cluster; empty when it is not known.
	Node      string
	Addresses []string
	Zone      string
	// Type is the machine type that it was made as; empty when the platform cannot tell.
	Type string
	// State is the platform's word for what the machine does; Running says that it runs.
	State   string
	Running bool
	// Spare says that the machine waits in a warm pool, Detached that its group no longer counts it.
	Spare, Detached bool
	// Outdated says that the platform would make it otherwise now; Roll.Made says in what.
	Outdated bool
	Created  time.Time
}

// Roll is what replacing machines needs of a platform. Each function is idempotent: a
// roll that was cut off calls it again. A nil one is not supported, and the roll does without.
type Roll struct {
	// Surge is how many machines more than its size a group has during a roll, where neither
	// the group nor the cluster says.
	Surge int
	// InPlace says that machines are changed, and never replaced.
	InPlace bool
	// Refills says that a group by itself makes another machine in the place of one that is
	// detached or ended; otherwise an update of the cluster makes it.
	Refills bool
	// Made tells what machines were made of, by their names; one of which nothing can be told is left out.
	Made func(context.Context, *Session, *api.Cluster, []*api.InstanceGroup, []Machine) (map[string]Made, error)
	// Detach has the group count a machine no longer; it goes on to serve until it is terminated.
	Detach func(context.Context, *Session, *api.Cluster, Machine) error
	// Deregister takes a machine out of the load balancers, and returns when none sends it
	// anything any more.
	Deregister func(context.Context, *Session, *api.Cluster, Machine) error
	// Terminate ends a machine for good.
	Terminate func(context.Context, *Session, *api.Cluster, Machine) error
}

// Room is for how many more machines of a group there is room: Why says what bounds it, and
// Remedy what gives more.
type Room struct {
	Group       string
	Machines    int
	Why, Remedy string
}

// Made is what a platform made a machine of.
type Made struct {
	// Config is the hash of the node configuration that the machine was started with
	// (nodeconfig.Boot.NodeupConfigHash); empty when the platform cannot tell.
	Config string
	// Wanted is that with which it would be started now; empty when the platform cannot tell.
	Wanted string
	// Changes are what the platform would do otherwise now, but for the node configuration.
	Changes []Change
}

// Change is one difference between a machine as it was made and as it would be made now.
type Change struct {
	// Field is the spec's, such as spec.machineType, or the platform's word where no field says it.
	Field      string
	Have, Want string
}

// BootRecord is a machine's report on its start. Either part may be empty.
type BootRecord struct {
	// Report is the boot report that nodeup keeps, in JSON.
	Report []byte
	// Console is what the machine wrote on its console, or the end of it.
	Console []byte
}

// Config says which part of a platform is meant. How it is reached, with which
// credentials, is known to a Provider when it is made.
type Config struct {
	// Cluster is the cluster as far as it is known; nil before it is described.
	Cluster *api.Cluster
	// Region is the cluster's; empty means the platform's own choice.
	Region string
	// Hosts are the machines that were enrolled.
	Hosts []*api.Host
	// Memo keeps observations between runs; it may be nil.
	Memo past.Memo
}

// Session is an open connection to a platform.
type Session struct {
	// Client is what the platform's kinds expect.
	Client any
	// Snapshot returns a client that asks each question once, for one observation; nil: Client serves.
	Snapshot func() any
	// Prefetch makes such a client ask everything it can before the desired objects are known,
	// once a platform is looked up; the observation finds the answers there. It returns when
	// everything is asked, or the context ends. Nil: nothing is asked.
	Prefetch func(ctx context.Context, snapshot any, cluster string)
}

// Model is the input of a platform's model: a completed cluster and its surroundings.
type Model struct {
	Cluster *api.Cluster
	Groups  []*api.InstanceGroup
	// Hosts are the machines that were enrolled.
	Hosts []*api.Host
	Facts *facts.Facts
	// Addons is the catalogue of add-ons; nil: this program's own.
	Addons *catalogue.Catalogue
	// SSHKeys are public keys, each an OpenSSH line.
	SSHKeys []string
	// UserData returns a group's boot data; hosts are where its machines reach the control
	// plane when no name is published: the API, at one host or at the addresses of several, or,
	// for those that run an API server alone, etcd.
	UserData func(g *api.InstanceGroup, hosts ...resource.Value) (resource.Content, error)
	// Script declares the file with a group's boot data, for machines that others
	// than kops make; apiHost is as for UserData.
	Script func(g *api.InstanceGroup, apiHost resource.Value) (resource.Node, error)
	// Keysets are what boot data relies on, so that machines are declared after them.
	Keysets []resource.Address
	// StoreKeys are for control planes; their Place is empty where they need none.
	StoreKeys StoreKeys
	// FilesBucket is the bucket or folder of the managed files.
	FilesBucket string
	// FilesRegion is the bucket's region, where it has one.
	FilesRegion string
	// FilesEndpoint is the URL of the server of that bucket, where it is not the platform's own.
	FilesEndpoint string
}

// StoreKeys are the keys of a server of S3 that is not the platform's.
type StoreKeys struct {
	// Place is the platform's, as traits.Store.Keys names it.
	Place string
	storekeys.Pair
}
