package emulator

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"time"
)

// Options say what exists from the start, and how the emulator behaves.
type Options struct {
	// Project is the ID of the first project; empty: testproject. Others are further projects.
	Project string
	Others  []string
	// Regions maps each region to its zones; nil: us-test1 with the zones us-test1-a, -b and -c.
	Regions map[string][]string
	// Images are the images of public and own projects; nil: every image that is requested exists.
	Images []Image
	// MachineTypes are the machine types of every zone; nil: the usual ones.
	MachineTypes []MachineType
	// DNSZones are managed zones in Cloud DNS.
	DNSZones []DNSZone
	// Buckets are buckets in Cloud Storage. Objects handles requests for their content; nil: they
	// are empty.
	Buckets []Bucket
	Objects http.Handler

	// Machines run the instances; nil: instances run, but do nothing.
	Machines Machines
	// EKPub returns the public part of the key with which the virtual TPM of an instance signs, as
	// PEM of PKIX; nil: instances have no such identity. It must not call the emulator.
	EKPub func(Instance) (string, error)

	// Now and Sleep are the clock; nil: the real clock.
	Now   func() time.Time
	Sleep func(context.Context, time.Duration) error
	// Latency is how long operations take; 0: they are done by the next request. Boot is how long
	// instances take to boot, and to stop.
	Latency, Boot time.Duration
	// AccountDelay is how long it takes until a new service account is visible to other services.
	AccountDelay time.Duration
	// LateInUse makes the deletion of an object in use fail in the operation, and not immediately.
	LateInUse bool
	// Quotas are the limits of metrics, such as NETWORKS or CPUS (of each region); other metrics
	// have the usual limits.
	Quotas map[string]float64
	// Healthy reports whether a running instance passes health checks at a port; nil: it always
	// does. It must not call the emulator.
	Healthy func(i Instance, port int) bool
	// Seed determines random values: IDs, names, fingerprints.
	Seed uint64
	// OnBug is called with bugs of the emulator: a method that it does not implement, or a
	// response that Google's description forbids. May be nil; it must not call the emulator.
	OnBug func(error)
}

// Image is a machine image.
type Image struct {
	Project, Name, Family string
	// Arm64 images have the architecture ARM64, the others X86_64.
	Arm64 bool
	// GiB is the size of its disk, in GiB; 0: 10.
	GiB int
	// Deprecated images are never the newest of their family.
	Deprecated bool
}

// MachineType is a machine type.
type MachineType struct {
	Name      string
	CPUs      int
	MemoryMiB int
	Arm64     bool
}

// DNSZone is a managed zone.
type DNSZone struct {
	// Project is the zone's project; empty: the first.
	Project, Name string
	// DNSName is its domain, with a trailing dot.
	DNSName string
	Private bool
	// ID is its numeric ID; 0: the emulator assigns one.
	ID uint64
}

// Bucket is a Cloud Storage bucket.
type Bucket struct {
	Name string
	// Uniform buckets have no access control lists.
	Uniform bool
}

// Instance describes an instance's machine.
type Instance struct {
	Project, Zone, Name string
	ID                  uint64
	MachineType         string
	Metadata            map[string]string
	Tags                []string
	// Address is its internal address, and External the address of its access config, invalid
	// without one.
	Address, External netip.Addr
	Subnet            netip.Prefix
	Disks             []InstanceDisk
}

// InstanceDisk is a disk that is attached to an instance.
type InstanceDisk struct {
	// Name is the disk's name, and Device its name in the guest, /dev/disk/by-id/google-<device>.
	Name, Device string
	GiB          int
	Boot         bool
}

// Machines run instances. An instance is identified by its project, its zone and its name. The
// methods must not call the emulator.
type Machines interface {
	// Start starts a machine, new or stopped, and returns as soon as it is booting. An error
	// becomes the operation's error.
	Start(context.Context, Instance) error
	// Stop stops a machine, which keeps its disks. It is not an error if it is not running.
	Stop(context.Context, Instance) error
	// Delete stops and removes a machine. It is not an error if it does not exist.
	Delete(context.Context, Instance) error
	// Plug makes the instance's disks, and no others, available to a running machine.
	Plug(context.Context, Instance) error
	// Console returns a machine's serial port output.
	Console(Instance) ([]byte, error)
}

// idleMachines implements Machines without running anything.
type idleMachines struct{}

func (idleMachines) Start(context.Context, Instance) error  { return nil }
func (idleMachines) Stop(context.Context, Instance) error   { return nil }
func (idleMachines) Delete(context.Context, Instance) error { return nil }
func (idleMachines) Plug(context.Context, Instance) error   { return nil }
func (idleMachines) Console(i Instance) ([]byte, error)     { return []byte(i.Name + " login: "), nil }

var (
	uuid      = pattern(`^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`)
	projectID = pattern(`^[a-z][a-z0-9-]{4,28}[a-z0-9]$`)
	zoneName  = pattern(`^[a-z]+-[a-z]+[0-9]+-[a-z]+$`)
)

func (o Options) withDefaults() (Options, error) {
	if o.Project == "" {
		o.Project = "testproject"
	}
	for _, p := range append(slices.Clone(o.Others), o.Project) {
		if !projectID().MatchString(p) {
			return o, fmt.Errorf("the emulator's project %q is not the id of a project: 6 to 30 lower-case letters, digits and dashes", p)
		}
	}
	if o.Regions == nil {
		o.Regions = map[string][]string{"us-test1": {"us-test1-a", "us-test1-b", "us-test1-c"}}
	}
	for region, zones := range o.Regions {
		for _, z := range zones {
			if !zoneName().MatchString(z) || regionOf(z) != region {
				return o, fmt.Errorf("the emulator's zone %q is not in region %s", z, region)
			}
		}
	}
	if o.MachineTypes == nil {
		o.MachineTypes = usualTypes()
	}
	if o.Machines == nil {
		o.Machines = idleMachines{}
	}
	return o, nil
}

// usualTypes returns machine types of the common families.
func usualTypes() []MachineType {
	out := []MachineType{{Name: "e2-micro", CPUs: 2, MemoryMiB: 1024}, {Name: "e2-small", CPUs: 2, MemoryMiB: 2048}, {Name: "e2-medium", CPUs: 2, MemoryMiB: 4096},
		{Name: "f1-micro", CPUs: 1, MemoryMiB: 614}, {Name: "g1-small", CPUs: 1, MemoryMiB: 1740}, {Name: "n1-standard-1", CPUs: 1, MemoryMiB: 3840},
		{Name: "a2-highgpu-1g", CPUs: 12, MemoryMiB: 87040}, {Name: "g2-standard-4", CPUs: 4, MemoryMiB: 16384}}
	for _, family := range []string{"e2", "n1", "n2", "n2d", "n4", "c3", "c4", "t2a", "c4a"} {
		arm := family == "t2a" || family == "c4a"
		for _, cpus := range []int{2, 4, 8, 16} {
			out = append(out, MachineType{Name: fmt.Sprintf("%s-standard-%d", family, cpus), CPUs: cpus, MemoryMiB: 4096 * cpus, Arm64: arm})
			if family != "t2a" {
				out = append(out, MachineType{Name: fmt.Sprintf("%s-highmem-%d", family, cpus), CPUs: cpus, MemoryMiB: 8192 * cpus, Arm64: arm})
			}
		}
	}
	return out
}
