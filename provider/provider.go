// Package provider is for programs that add a platform of their own: it defines the
// platform's resources, which of them a cluster needs, and what runs there. A Platform
// is one of the Clouds of a kops.Config; its clusters have a label with its name.
//
// It must not know any platform, nor how plans are created or applied.
package provider

import (
	"context"
	"time"

	"kops.local/kops/api"
	"kops.local/kops/provider/value"
)

// Platform is one platform. All fields except Name, Kinds and Model are optional.
type Platform struct {
	// Name is the value of the label api.LabelMetalCloud; Title is for people.
	Name, Title string
	// Kinds are the kinds of its resources, each after the kinds it may refer to.
	Kinds []AnyKind
	// Calls is the maximum number of concurrent calls; 0 means 16.
	Calls int
	// MachineType and Image are the defaults of new instance groups.
	MachineType, Image string
	// FileHashes are the hexadecimal SHA-256 digests of the files that machines download, by URL;
	// * matches any text. For other files, kops requests the digest from the publisher.
	FileHashes map[string]string
	// Model lists the resources that a cluster needs, each after those it refers to.
	Model func(*Cluster) ([]Resource, error)
	// Shared lists the resources that a cluster uses but does not own, so that a deletion keeps them.
	Shared func(*api.Cluster) ([]Resource, error)
	// Endpoint finds the address of a cluster's API; "" while it has no address.
	Endpoint func(context.Context, *api.Cluster) (string, error)
	// Machines finds the machines of the instance groups. Groups that do not exist on the platform are
	// left out.
	Machines func(context.Context, *api.Cluster, []*api.InstanceGroup) ([]MachineGroup, error)
	// BootRecord reads what a machine reports about its boot.
	BootRecord func(context.Context, *api.Cluster, Machine) (BootRecord, error)
	// Roll holds the functions that replace machines.
	Roll Roll
}

// Cluster is the completed cluster for which a platform creates resources.
type Cluster struct {
	Spec   *api.Cluster
	Groups []*api.InstanceGroup
	// SSHKeys are the public keys that may log in to machines, each an OpenSSH line.
	SSHKeys []string
	// Start returns the boot script of a group's machines; they find the API at apiHosts
	// if no DNS name of it is published.
	Start func(group *api.InstanceGroup, apiHosts ...value.Value) (value.Content, error)
}

// MachineGroup is an instance group as its platform reports it.
type MachineGroup struct {
	// Name is the instance group's name; empty for machines that belong to none.
	Name string
	// Target is the desired number of machines.
	Target   int
	Machines []Machine
	// Trouble is, in the platform's words, the group's problem; empty if there is no known
	// problem. It fails a validation.
	Trouble string
}

// Machine is one machine of a cluster, as its platform reports it.
type Machine struct {
	// Name is the platform's own name, such as the ID of an instance; Group is its instance group.
	Name, Group string
	// Node is the name under which it joins the cluster; empty if unknown.
	Node      string
	Addresses []string
	Zone      string
	// Type is the machine type that it was created with; empty if the platform does not know.
	Type string
	// State is the platform's term for the machine's state; Running means that it runs.
	State   string
	Running bool
	// Spare means that the machine waits in reserve, Detached that its group no longer counts it.
	Spare, Detached bool
	// Outdated means that the platform would create it differently now; Roll.Drift returns the differences.
	Outdated bool
	Created  time.Time
}

// BootRecord is what a machine reports about its boot. Either part may be empty.
type BootRecord struct {
	// Report is the boot report that nodeup keeps, in JSON.
	Report []byte
	// Console is the machine's console output, or the end of it.
	Console []byte
}
