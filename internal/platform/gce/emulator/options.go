package emulator

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"time"
)

// Options say what there is before anything is made, and how the emulator behaves.
type Options struct {
	// Project is the id of the first project; empty: testproject. Others are more of them.
	Project string
	Others  []string
	// Regions are the zones of each region; nil: us-test1 with the zones us-test1-a, -b and -c.
	Regions map[string][]string
	// Images are those of public and own projects; nil: whatever image is asked for is there.
	Images []Image
	// MachineTypes are those of every zone; nil: the usual ones.
	MachineTypes []MachineType
	// DNSZones are managed zones of Cloud DNS.
	DNSZones []DNSZone
	// Buckets are those of Cloud Storage. What is in them is answered by Objects; nil: nothing is.
	Buckets []Bucket
	Objects http.Handler

	// Machines run what instances start; nil: instances run, and do nothing.
	Machines Machines
	// EKPub, which must not call the emulator, is the public part of the key that the virtual TPM of an instance signs with, PEM
	// of PKIX; nil: instances have no such identity.
	EKPub func(Instance) (string, error)

	// Now and Sleep are the clock; nil: the real one.
	Now   func() time.Time
	Sleep func(context.Context, time.Duration) error
	// Latency is how long operations go on; 0: they are done when one looks again. Boot is
	// how long instances take from the beginning until they run, and to stop.
	Latency, Boot time.Duration
	// AccountDelay is how long a new service account is not known to others.
	AccountDelay time.Duration
	// LateInUse has objects in use refuse to be deleted by the operation, and not at once.
	LateInUse bool
	// Quotas are the limits of metrics, such as NETWORKS or CPUS (of each region); the others are
	// as in a new project.
	Quotas map[string]float64
	// Healthy, which must not call the emulator, reports whether an instance that runs answers health checks at a port; nil: it does.
	Healthy func(i Instance, port int) bool
	// Seed decides what is random: identifiers, names, fingerprints.
	Seed uint64
	// OnWrong is told of what is a fault of the emulator: a method that it does not play,
	// an answer that Google's description forbids. May be nil; it must not call the emulator.
	OnWrong func(error)
}

// Image is a machine image.
type Image struct {
	Project, Name, Family string
	// Arm64 images are of that architecture, the others X86_64.
	Arm64 bool
	// GiB is the size of its disk; 0: 10.
	GiB int
	// Deprecated images are not the newest of their family.
	Deprecated bool
}

// MachineType is a size of instances.
type MachineType struct {
	Name      string
	CPUs      int
	MemoryMiB int
	Arm64     bool
}

// DNSZone is a managed zone.
type DNSZone struct {
	// Project is its own; empty: the first.
	Project, Name string
	// DNSName is its domain, with the final dot.
	DNSName string
	Private bool
	// ID is its number; 0: the emulator's choice.
	ID uint64
}

// Bucket is one of Cloud Storage.
type Bucket struct {
	Name string
	// Uniform buckets have no lists of access.
	Uniform bool
}

// Instance is what a machine is made of.
type Instance struct {
	Project, Zone, Name string
	ID                  uint64
	MachineType         string
	Metadata            map[string]string
	Tags                []string
	// Address is its internal one, and External that of its access config, invalid without.
	Address, External netip.Addr
	Subnet            netip.Prefix
	Disks             []InstanceDisk
}

// InstanceDisk is a disk that an instance has.
type InstanceDisk struct {
	// Name is that of the disk, and Device what the guest finds as
	// /dev/disk/by-id/google-<device>.
	Name, Device string
	GiB          int
	Boot         bool
}

// Machines run instances. An instance is named by its project, its zone and its name. No call
// may call the emulator.
type Machines interface {
	// Start starts a machine, new or stopped, and returns as soon as it is on its way. An error is
	// told as what the operation ended with.
	Start(context.Context, Instance) error
	// Stop ends a machine, which keeps its disks. One that does not run is no error.
	Stop(context.Context, Instance) error
	// Delete ends a machine, and removes it. One that does not exist is no error.
	Delete(context.Context, Instance) error
	// Plug has a running machine have the disks of the instance, and no others.
	Plug(context.Context, Instance) error
	// Console returns what a machine wrote on its serial port.
	Console(Instance) ([]byte, error)
}

// idle is what runs instances when nothing does.
type idle struct{}

func (idle) Start(context.Context, Instance) error  { return nil }
func (idle) Stop(context.Context, Instance) error   { return nil }
func (idle) Delete(context.Context, Instance) error { return nil }
func (idle) Plug(context.Context, Instance) error   { return nil }
func (idle) Console(i Instance) ([]byte, error)     { return []byte(i.Name + " login: "), nil }

var (
	uuid      = pattern(`^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`)
	projectID = pattern(`^[a-z][a-z0-9-]{4,28}[a-z0-9]$`)
	zoneName  = pattern(`^[a-z]+-[a-z]+[0-9]+-[a-z]+$`)
)

func (o Options) complete() (Options, error) {
	o = clockOf(o)
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
		o.Machines = idle{}
	}
	return o, nil
}

// usualTypes are machine types of the common families.
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
