package facts

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
)

// Cloud is what was looked up in one cloud, in terms that all clouds share.
type Cloud struct {
	Region string `json:"region,omitempty"`
	// Zones are the region's zones in which machines can be created, sorted.
	Zones []string `json:"zones,omitempty"`

	// Images are machine images by the name in a spec.
	Images map[string]Image `json:"images,omitempty"`
	// MachineTypes are by name.
	MachineTypes map[string]MachineType `json:"machineTypes,omitempty"`
	// Architecture is the architecture of all machines, amd64 or arm64, if the cloud has no other.
	Architecture string `json:"architecture,omitempty"`
	// DNSZones are the zones whose names are suffixes of the cluster's name.
	DNSZones []DNSZone `json:"dnsZones,omitempty"`
	// FreeNetwork is a range, such as "10.77.0.0/24", that a new cluster's network can use; empty
	// if any will do.
	FreeNetwork string `json:"freeNetwork,omitempty"`
	// Networks are shared networks, by the name or id in a spec.
	Networks map[string]Network `json:"networks,omitempty"`
	// Subnets are shared subnets by id.
	Subnets map[string]Subnet `json:"subnets,omitempty"`
	// Buckets are the regions of buckets that files are written to, by bucket name.
	Buckets map[string]string `json:"buckets,omitempty"`
	// Bundle is the folder from which all files and images for machines are served; empty if
	// machines fetch from their publishers.
	Bundle string `json:"bundle,omitempty"`

	// Own is what is specific to this cloud. Its structure is defined in the cloud's folder.
	Own json.RawMessage `json:"own,omitempty"`
}

// Processor architectures, as in images and machine types.
const (
	ArchX86  = "x86_64"
	ArchARM  = "arm64"
	ArchI386 = "i386"
)

// Image is a machine image.
type Image struct {
	ID           string `json:"id"`         // the cloud's, such as "ami-…"
	RootDevice   string `json:"rootDevice"` // "/dev/xvda"
	Architecture string `json:"architecture"`
}

// MachineType is a machine type.
type MachineType struct {
	VCPU          int      `json:"vCPU"`
	MemoryMiB     int      `json:"memoryMiB"`
	Architectures []string `json:"architectures"`
	// EphemeralDisks are the host's disks, one entry each, in GB.
	EphemeralDisks []EphemeralDisk `json:"ephemeralDisks,omitempty"`
	GPU            bool            `json:"gpu,omitempty"`
	Interfaces     int             `json:"interfaces,omitempty"`      // maximum number of network interfaces
	IPsPerIface    int             `json:"ipsPerInterface,omitempty"` // maximum number of IPv4 addresses per interface
	// Zones are the zones that offer the type; empty means all of the region.
	Zones []string `json:"zones,omitempty"`
}

// EphemeralDisk is a host's disk, whose content is lost with the machine.
type EphemeralDisk struct {
	SizeGB int `json:"sizeGB"`
}

// Network is a shared network.
type Network struct {
	CIDRs             []string `json:"cidrs"` // the primary range first
	IPv6CIDRs         []string `json:"ipv6CIDRs,omitempty"`
	InternetGateway   string   `json:"internetGateway,omitempty"`   // its id, if it is an object
	EgressOnlyGateway string   `json:"egressOnlyGateway,omitempty"` // for IPv6
}

// Subnet is a shared subnet.
type Subnet struct {
	Network  string `json:"network"`
	CIDR     string `json:"cidr,omitempty"`
	IPv6CIDR string `json:"ipv6CIDR,omitempty"`
	Zone     string `json:"zone"`
}

// Of returns the facts of a cloud. It is never nil; it is empty for a cloud that was not queried.
func (f *Facts) Of(cloud string) *Cloud {
	if f == nil || f.Clouds[cloud] == nil {
		return &Cloud{}
	}
	return f.Clouds[cloud]
}

// Image returns the image with a spec's name for it.
func (c *Cloud) Image(name string) (Image, bool) { return Lookup(c.Images, name) }

// MachineType returns a machine type.
func (c *Cloud) MachineType(name string) (MachineType, bool) { return Lookup(c.MachineTypes, name) }

// OwnAs returns what is specific to this cloud; unknown fields are rejected. It is empty if nothing
// was looked up.
func OwnAs[T any](c *Cloud) (T, error) {
	var own T
	if len(c.Own) == 0 {
		return own, nil
	}
	d := json.NewDecoder(bytes.NewReader(c.Own))
	d.DisallowUnknownFields()
	if err := d.Decode(&own); err != nil {
		return own, fmt.Errorf("read facts: own: %w", err)
	}
	return own, nil
}

// CheckOwn checks that OwnAs can read what is specific to this cloud.
func CheckOwn[T any](c *Cloud) error {
	_, err := OwnAs[T](c)
	return err
}

// SetOwn sets what is specific to this cloud.
func (c *Cloud) SetOwn(own any) error {
	data, err := json.Marshal(own)
	if err != nil {
		return fmt.Errorf("write the cloud's own facts: %w", err)
	}
	c.Own = data
	return nil
}

// OfferedIn reports whether all of the zones offer the type.
func (t MachineType) OfferedIn(zones []string) bool {
	return len(t.Zones) == 0 || !slices.ContainsFunc(zones, func(z string) bool { return !slices.Contains(t.Zones, z) })
}

// Supports reports whether the type runs images of the architecture.
func (t MachineType) Supports(arch string) bool { return slices.Contains(t.Architectures, arch) }
