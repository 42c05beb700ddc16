package facts

import "slices"

// AWS is what a cluster on Amazon Web Services asks.
type AWS struct {
	Region    string `json:"region,omitempty"`
	Partition string `json:"partition,omitempty"` // "aws", "aws-cn", …
	AccountID string `json:"accountID,omitempty"`
	// Zones are the region's availability zones that are available to the account, sorted.
	Zones []string `json:"zones,omitempty"`

	// Images are machine images by the name that a spec writes.
	Images map[string]AWSImage `json:"images,omitempty"`
	// MachineTypes are instance types by name.
	MachineTypes map[string]AWSMachineType `json:"machineTypes,omitempty"`
	// DNSZones are the zones whose names end the cluster's.
	DNSZones []DNSZone `json:"dnsZones,omitempty"`
	// VPCs are shared VPCs by id.
	VPCs map[string]AWSVPC `json:"vpcs,omitempty"`
	// Subnets are shared subnets by id.
	Subnets map[string]AWSSubnet `json:"subnets,omitempty"`
	// InstanceProfiles are the names of the roles of shared instance profiles, by the profile's name or ARN as a spec writes it.
	InstanceProfiles map[string]string `json:"instanceProfiles,omitempty"`
	// ElasticIPs are the allocation ids, "eipalloc-…", of shared addresses, by address.
	ElasticIPs map[string]string `json:"elasticIPs,omitempty"`
	// Buckets are the regions of S3 buckets that files are written to, by name.
	Buckets map[string]string `json:"buckets,omitempty"`
}

// Processor architectures, as EC2 spells them.
const (
	ArchX86  = "x86_64"
	ArchARM  = "arm64"
	ArchI386 = "i386"
)

// AWSImage is a machine image.
type AWSImage struct {
	ID           string `json:"id"`         // "ami-…"
	RootDevice   string `json:"rootDevice"` // "/dev/xvda"
	Architecture string `json:"architecture"`
}

// AWSMachineType is an instance type.
type AWSMachineType struct {
	VCPU          int      `json:"vCPU"`
	MemoryMiB     int      `json:"memoryMiB"`
	Architectures []string `json:"architectures"`
	// EphemeralDisks are the disks of the host, one entry each, in GB.
	EphemeralDisks []EphemeralDisk `json:"ephemeralDisks,omitempty"`
	GPU            bool            `json:"gpu,omitempty"`
	ENIs           int             `json:"enis,omitempty"`      // the most network interfaces
	IPsPerENI      int             `json:"ipsPerENI,omitempty"` // the most IPv4 addresses of each
	// Zones are those that offer the type; empty means all of the region.
	Zones []string `json:"zones,omitempty"`
}

// EphemeralDisk is a disk of the host that loses its content with the machine.
type EphemeralDisk struct {
	SizeGB int `json:"sizeGB"`
}

// AWSVPC is a shared VPC.
type AWSVPC struct {
	CIDRs             []string `json:"cidrs"` // the primary range first
	IPv6CIDRs         []string `json:"ipv6CIDRs,omitempty"`
	InternetGateway   string   `json:"internetGateway,omitempty"`   // "igw-…"
	EgressOnlyGateway string   `json:"egressOnlyGateway,omitempty"` // "eigw-…"
}

// AWSSubnet is a shared subnet.
type AWSSubnet struct {
	VPC      string `json:"vpc"`
	CIDR     string `json:"cidr,omitempty"`
	IPv6CIDR string `json:"ipv6CIDR,omitempty"`
	Zone     string `json:"zone"`
}

// Image returns the image that a spec names.
func (a *AWS) Image(name string) (AWSImage, bool) { return lookup(a.Images, name) }

// MachineType returns an instance type.
func (a *AWS) MachineType(name string) (AWSMachineType, bool) { return lookup(a.MachineTypes, name) }

// InstanceProfileRole returns the name of the role of a shared instance profile.
func (a *AWS) InstanceProfileRole(profile string) (string, bool) {
	return lookup(a.InstanceProfiles, profile)
}

// OfferedIn reports whether every one of the zones offers the type.
func (t AWSMachineType) OfferedIn(zones []string) bool {
	return len(t.Zones) == 0 || !slices.ContainsFunc(zones, func(z string) bool { return !slices.Contains(t.Zones, z) })
}

// Supports reports whether the type runs images of the architecture.
func (t AWSMachineType) Supports(arch string) bool { return slices.Contains(t.Architectures, arch) }
