// Package provider is for programs that bring a platform of their own: it says what the
// platform's resources are, which of them a cluster needs, and what runs there. A Platform
// is one of the Clouds of a kops.Config; its clusters have a label with its name.
//
// It must not know any platform, nor how plans are made or carried out.
package provider

import (
	"context"
	"time"

	"kops.local/kops/api"
	"kops.local/kops/provider/value"
)

// Platform is one platform. All but Name, Kinds and Model may be left out.
type Platform struct {
	// Name is the value of the label api.LabelMetalCloud; Title is for people.
	Name, Title string
	// Kinds are the kinds of its resources, each after the kinds it may refer to.
	Kinds []AnyKind
	// Calls is how many calls may be under way at once; 0 means 16.
	Calls int
	// MachineType and Image are those of new instance groups.
	MachineType, Image string
	// FileHashes are the hexadecimal SHA-256 digests of the files that machines download, by URL;
	// * stands for any text. For other files, kops asks the publisher.
	FileHashes map[string]string
	// Model lists the resources that a cluster needs, each after those it refers to.
	Model func(*Cluster) ([]Resource, error)
	// Shared lists what a cluster uses and does not own, so that a deletion keeps it.
	Shared func(*api.Cluster) ([]Resource, error)
	// Endpoint finds the address of a cluster's API; "" while it has no address.
	Endpoint func(context.Context, *api.Cluster) (string, error)
	// Machines finds the machines of the instance groups.
	Machines func(context.Context, *api.Cluster) ([]MachineGroup, error)
	// BootRecord reads what a machine tells of its start.
	BootRecord func(context.Context, *api.Cluster, Machine) (BootRecord, error)
	// Roll is what replacing machines needs.
	Roll Roll
}

// Cluster is what a platform makes resources for: a completed cluster.
type Cluster struct {
	Spec   *api.Cluster
	Groups []*api.InstanceGroup
	// SSHKeys are the public keys that may log in to machines, each an OpenSSH line.
	SSHKeys []string
	// Start returns what the machines of a group run when they start; they find the API at
	// apiHosts where no name of it is published.
	Start func(group *api.InstanceGroup, apiHosts ...value.Value) (value.Content, error)
}

// MachineGroup is an instance group as its platform has it.
type MachineGroup struct {
	// Name is the instance group's; empty for machines that belong to none.
	Name string
	// Target is how many machines the platform is to keep.
	Target   int
	Machines []Machine
	// Trouble says, in the platform's words, what is in the group's way; empty when nothing
	// is known. It fails a validation.
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
	// Spare says that the machine waits in reserve, Detached that its group no longer counts it.
	Spare, Detached bool
	// Outdated says that the platform would make it otherwise now; Roll.Made says in what.
	Outdated bool
	Created  time.Time
}

// BootRecord is what a machine tells of its start. Either part may be empty.
type BootRecord struct {
	// Report is the boot report that nodeup keeps, in JSON.
	Report []byte
	// Console is what the machine wrote on its console, or the end of it.
	Console []byte
}
