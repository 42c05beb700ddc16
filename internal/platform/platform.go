// Package platform defines what a platform is to the rest of kops: a struct of capabilities, where
// nil means "not supported".
//
// It must not know any platform; each has a folder next to this file and is listed in package
// providers.
package platform

import (
	"context"
	"time"

	"kops.local/kops/api"
	"kops.local/kops/internal/contract/pki"
	"kops.local/kops/internal/contract/storekeys"
	"kops.local/kops/internal/engine/graph"
	"kops.local/kops/internal/engine/past"
	"kops.local/kops/internal/engine/render/terraform"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/platform/ssh"
	"kops.local/kops/internal/platform/traits"
	"kops.local/kops/internal/spec/catalogue"
	"kops.local/kops/internal/spec/complete"
	"kops.local/kops/internal/spec/facts"
	"kops.local/kops/internal/spec/newcluster"
	"kops.local/kops/internal/spec/validate"
)

// Platform describes a platform without a connection to it: its traits as data, and rules that run
// at defined points of completion, validation and the description of new clusters.
type Platform struct {
	traits.Traits
	Complete complete.Rules
	Validate validate.Rules
	New      newcluster.Rules
	// Stub fills in the spec of a cluster from its name and region, just enough to find its
	// resources; nil: they cannot be found without its objects.
	Stub func(c *api.Cluster, region string)
	// CheckFacts checks the facts that only this platform has; nil: there are none.
	CheckFacts func(*facts.Cloud) error
}

// ForComplete returns the platform in the form that completion takes.
func (p *Platform) ForComplete() complete.Platform {
	return complete.Platform{Traits: &p.Traits, Rules: p.Complete}
}

// ForValidate returns the platform in the form that validation takes.
func (p *Platform) ForValidate() validate.Platform {
	return validate.Platform{Traits: &p.Traits, Rules: p.Validate}
}

// ForNew returns the platform in the form that the description of a new cluster takes.
func (p *Platform) ForNew() newcluster.Platform {
	return newcluster.Platform{Traits: &p.Traits, Rules: p.New}
}

// Provider is a platform and how it is reached. If only its Platform is set, specs can name the
// platform, but kops cannot create clusters there yet.
type Provider struct {
	Platform
	// Remote reports that its machines are not this host, and read none of its folders.
	Remote bool
	// Kinds lists its resource kinds, each after the kinds it may refer to.
	Kinds []resource.Any
	// Limits bounds the number of concurrent calls, by API name.
	Limits map[string]int
	// Secrets returns the secrets of the program's environment that manifests of add-ons may have, and
	// that control planes get as onmachine.World.Secret, by name; nil: there are none.
	Secrets func() (map[string]pki.Secret, error)
	// CheckSecrets returns an error if those secrets do not permit changes, which the programs of control
	// planes make; nil: that is not known. It is called before a cluster gets others than it has.
	CheckSecrets func(context.Context, *Session) error
	// Connect opens a session. It should make no request.
	Connect func(context.Context, Config) (*Session, error)
	// Lookup, Declare, Fleet and Hosts are what kops asks of the platform, by the part of kops that
	// asks. In each of them, a nil function is not supported.
	Lookup  Lookup
	Declare Declare
	Fleet   Fleet
	Hosts   Hosts
}

// Lookup is what a platform knows before any of a cluster's resources are declared.
type Lookup struct {
	// Region returns the cluster's region; nil: the platform has no regions.
	Region func(*api.Cluster) (string, error) `needed:"every command, where the cloud has regions"`
	// Facts queries the platform for everything that completing and modelling a cluster needs.
	Facts func(context.Context, *Session, *api.Cluster, []*api.InstanceGroup) (*facts.Facts, error) `needed:"update cluster"`
	// SetFacts gives a session the facts that were looked up or read from a file; nil: it needs
	// none.
	SetFacts func(*Session, *facts.Facts) error `needed:"update cluster, where names contain what is looked up"`
	// NewClusterFacts queries the platform for what choosing the spec of a new cluster needs.
	NewClusterFacts func(context.Context, *Session, newcluster.Options, newcluster.World) (*facts.Facts, error) `needed:"create cluster"`
	// Endpoint finds the address of the API load balancer of an existing cluster; nil: the platform
	// has no load balancers.
	Endpoint func(context.Context, *Session, *api.Cluster) (string, error) `needed:"export kubeconfig, validate cluster, without DNS names"`
}

// Declare is what a cluster consists of on a platform. It is pure.
type Declare struct {
	// Model adds the platform's resources to a graph that already holds the managed files, except
	// those that depend on its resources.
	Model func(Model, *graph.Graph) error `needed:"update cluster, delete cluster"`
	// Shared lists what a cluster uses but does not own, so that a deletion lists and keeps it.
	Shared func(*api.Cluster) ([]resource.Node, error) `needed:"delete cluster, where clusters use existing resources"`
	// APIHost returns where machines that kops does not create reach the API if no name is
	// published; it may be an output of one of the platform's resources. nil: there are no such
	// machines.
	APIHost func(Model) (resource.Value, error) `needed:"toolbox enroll"`
	// Terraform returns the parts of a Terraform document other than the graph; nil: Terraform is
	// not supported.
	Terraform func(Model, *graph.Graph) (terraform.Document, error) `needed:"update cluster --target terraform"`
}

// Fleet is the machines of running clusters.
type Fleet struct {
	// Machines finds the machines of the instance groups, in as few calls as the platform allows;
	// nil: not supported. Groups that do not exist on the platform are left out.
	Machines func(context.Context, *Session, *api.Cluster, []*api.InstanceGroup) ([]MachineGroup, error) `needed:"get instances, validate cluster, rolling-update cluster, doctor"`
	// Roll is what replacing machines needs from the platform.
	Roll Roll
	// Room returns how many more machines each group has room for, for the groups where that is
	// known; nil: the platform cannot tell.
	Room func(context.Context, *Session, *api.Cluster, []*api.InstanceGroup) ([]Room, error) `needed:"rolling-update cluster: whether a surge fits"`
	// BootRecord reads a machine's report on its boot; nil: the platform cannot tell.
	BootRecord func(context.Context, *Session, *api.Cluster, Machine) (BootRecord, error) `needed:"doctor, validate cluster: why a machine does not join"`
}

// Hosts is for platforms whose machines are the user's own. Both functions are nil where the
// platform creates its machines.
type Hosts struct {
	// Enroll determines the identity of one of the user's machines and enables it to prove that
	// identity. It changes nothing else on the machine.
	Enroll func(context.Context, *Session, Enrollment) (*api.Host, error) `needed:"toolbox enroll"`
	// Release stops everything that a cluster runs on an enrolled machine.
	Release func(context.Context, *Session, *api.Cluster, *api.Host) error `needed:"delete instance, delete cluster"`
}

// As sets target to the platform if target is a pointer to one.
func (p Provider) As(target any) bool {
	t, ok := target.(*Provider)
	if ok {
		*t = p
	}
	return ok
}

// Enrollment names the user's machine that is to join a cluster.
type Enrollment struct {
	Cluster *api.Cluster
	Group   *api.InstanceGroup
	ssh.Target
	// PodCIDRs are its pod ranges, if they are chosen by hand.
	PodCIDRs []string
}

// MachineGroup is an instance group as its platform reports it.
type MachineGroup struct {
	// Name is the instance group's name; empty for machines that belong to no group.
	Name string
	// Target is the number of machines that the platform is to keep.
	Target   int
	Machines []Machine
	// Trouble is the group's problem, in the platform's words, such as why machines are missing;
	// empty if there is no known problem. It fails a validation.
	Trouble string
}

// Machine is one machine of a cluster, as its platform reports it.
type Machine struct {
	// Name is the platform's name for it, such as an instance ID; Group is its instance group.
	Name, Group string
	// Node is the name under which it joins the cluster; empty when unknown.
	Node      string
	Addresses []string
	Zone      string
	// Type is the machine type with which it was created; empty when the platform cannot tell.
	Type string
	// State is the platform's term for the machine's state; Running reports whether it runs.
	State   string
	Running bool
	// Spare reports that the machine waits in a warm pool, Detached that its group no longer counts
	// it.
	Spare, Detached bool
	// Outdated reports that the platform would create it differently now; Roll.Drift tells how.
	Outdated bool
	Created  time.Time
}

// Roll is what replacing machines needs from a platform. Each function is idempotent: a roll that
// was interrupted calls it again. If a function is nil, the roll does without it.
type Roll struct {
	// Surge is how many machines a group has in excess of its size during a roll, if neither the
	// group nor the cluster sets it.
	Surge int
	// InPlace reports that machines are changed, and never replaced.
	InPlace bool
	// Refills reports that a group replaces a detached or terminated machine on its own; otherwise
	// an update of the cluster creates the replacement.
	Refills bool
	// Drift returns what machines were made of, by machine name; machines about which nothing is
	// known are left out.
	Drift func(context.Context, *Session, *api.Cluster, []*api.InstanceGroup, []Machine) (map[string]Drift, error) `needed:"get instances, rolling-update cluster: why a machine is outdated"`
	// Detach stops a group from counting a machine, which keeps serving until it is terminated.
	Detach func(context.Context, *Session, *api.Cluster, Machine) error `needed:"rolling-update cluster: a surge"`
	// Deregister takes a machine out of the load balancers, and returns when none of them sends it
	// traffic.
	Deregister func(context.Context, *Session, *api.Cluster, Machine) error `needed:"rolling-update cluster: no traffic before a machine ends"`
	// Terminate terminates a machine permanently.
	Terminate func(context.Context, *Session, *api.Cluster, Machine) error `needed:"rolling-update cluster, delete instance"`
}

// Room is how many more machines a group has room for: Why says what limits it, and Remedy how to
// get more.
type Room struct {
	Group       string
	Machines    int
	Why, Remedy string
}

// Drift is what a platform made a machine of.
type Drift struct {
	// Config is the hash of the node configuration that the machine was started with
	// (nodeconfig.Boot.NodeupConfigHash); empty when the platform cannot tell.
	Config string
	// Wanted is the hash with which it would be started now; empty when the platform cannot tell.
	Wanted string
	// Changes are what the platform would do differently now, except for the node configuration.
	Changes []Change
}

// Change is one difference between a machine as it was created and as it would be created now.
type Change struct {
	// Field is the field of the spec, such as spec.machineType, or the platform's term where there
	// is no field.
	Field      string
	Have, Want string
}

// BootRecord is a machine's report on its boot. Either part may be empty.
type BootRecord struct {
	// Report is the boot report that nodeup keeps, in JSON.
	Report []byte
	// Console is the machine's console output, or the end of it.
	Console []byte
}

// Config selects a part of a platform. How it is reached, and with which credentials, is fixed when
// a Provider is created.
type Config struct {
	// Cluster is the cluster as far as it is known; nil before it has been described.
	Cluster *api.Cluster
	// Region is the cluster's region; empty means the platform's default.
	Region string
	// Hosts are the enrolled machines.
	Hosts []*api.Host
	// Memo keeps observations between runs; it may be nil.
	Memo past.Memo
}

// Session is an open connection to a platform.
type Session struct {
	// Client is the client that the platform's kinds expect.
	Client any
	// Snapshot returns a client for one observation that makes each request only once; nil: use
	// Client.
	Snapshot func() any
	// Prefetch makes such a client send every request it can before the desired objects are known,
	// once a platform has been looked up; the observation then finds the responses in the client.
	// It returns when all requests are done or the context is done; nil: nothing is prefetched.
	Prefetch func(ctx context.Context, snapshot any, cluster string)
}

// Model is the input of a platform's model: a completed cluster and its surroundings.
type Model struct {
	Cluster *api.Cluster
	Groups  []*api.InstanceGroup
	// Hosts are the enrolled machines.
	Hosts []*api.Host
	Facts *facts.Facts
	// Addons is the catalogue of add-ons; nil: the program's built-in one.
	Addons *catalogue.Catalogue
	// SSHKeys are public keys, each an OpenSSH line.
	SSHKeys []string
	// UserData returns a group's boot data. hosts are the addresses at which its machines reach the
	// control plane when no name is published: the API, at one host or at several addresses, or
	// etcd for machines that run only an API server.
	UserData func(g *api.InstanceGroup, hosts ...resource.Value) (resource.Content, error)
	// Script declares the file with a group's boot data, for machines that kops does not create;
	// apiHost is as for UserData.
	Script func(g *api.InstanceGroup, apiHost resource.Value) (resource.Node, error)
	// Keysets are what boot data depends on, so that machines are declared after them.
	Keysets []resource.Address
	// StoreKeys are the control plane's keys for the store; Place is empty if they are not needed.
	StoreKeys StoreKeys
	// FilesBucket is the bucket or folder of the managed files.
	FilesBucket string
	// FilesRegion is the bucket's region, where it has one.
	FilesRegion string
	// FilesEndpoint is the URL of that bucket's server, if it is not the platform's own.
	FilesEndpoint string
}

// StoreKeys are the keys of an S3 server that is not the platform's.
type StoreKeys struct {
	// Place is where the platform keeps them, as traits.Store.Keys names it.
	Place string
	storekeys.Pair
}
