package api

// LoadBalancerType defines from where a load balancer is reachable.
type LoadBalancerType string

const (
	// LoadBalancerPublic is reachable from the internet.
	LoadBalancerPublic LoadBalancerType = "Public"
	// LoadBalancerInternal is reachable from inside the network.
	LoadBalancerInternal LoadBalancerType = "Internal"
)

// LoadBalancerClass is the kind of an AWS load balancer.
type LoadBalancerClass string

const (
	// LoadBalancerClassic is no longer offered; validation refuses it.
	LoadBalancerClassic LoadBalancerClass = "Classic"
	// LoadBalancerNetwork is a network load balancer.
	LoadBalancerNetwork LoadBalancerClass = "Network"
)

// LoadBalancerAccessSpec configures the load balancer in front of the API servers.
type LoadBalancerAccessSpec struct {
	// Class is Network on AWS, and is not set on other clouds.
	Class LoadBalancerClass `json:"class,omitempty" enum:"Classic|Network"`
	// Type defines from where it is reachable; Internal needs a private subnet.
	Type LoadBalancerType `json:"type,omitempty" enum:"Public|Internal"`
	// SecurityGroupOverride is an existing group (sg-…) used instead of the cluster's own.
	SecurityGroupOverride *string `json:"securityGroupOverride,omitempty"`
	// AdditionalSecurityGroups are existing groups (sg-…) to add.
	AdditionalSecurityGroups []string `json:"additionalSecurityGroups,omitempty"`
	// UseForInternalAPI makes machines use it to reach the API, too.
	UseForInternalAPI bool `json:"useForInternalAPI,omitempty"`
	// SSLCertificate is the ARN of a certificate for a second listener.
	SSLCertificate string `json:"sslCertificate,omitempty"`
	// SSLPolicy names the TLS policy of that listener.
	SSLPolicy *string `json:"sslPolicy,omitempty"`
	// CrossZoneLoadBalancing distributes connections over machines of all zones.
	CrossZoneLoadBalancing *bool `json:"crossZoneLoadBalancing,omitempty"`
	// Subnets are the subnets of the load balancer; selected by type when empty.
	Subnets []LoadBalancerSubnetSpec `json:"subnets,omitempty"`
	// AccessLog writes a log of connections to a bucket.
	AccessLog *AccessLogSpec `json:"accessLog,omitempty"`
}

// LoadBalancerSubnetSpec places the load balancer in one subnet.
type LoadBalancerSubnetSpec struct {
	// Name is the name of a subnet of the cluster.
	Name string `json:"name,omitempty"`
	// PrivateIPv4Address is its address there; for internal network load balancers.
	PrivateIPv4Address *string `json:"privateIPv4Address,omitempty"`
	// AllocationID is the elastic IP to use there; for public network load balancers.
	AllocationID *string `json:"allocationID,omitempty"`
}

// AccessLogSpec configures the destination of the log of connections.
type AccessLogSpec struct {
	Bucket       *string `json:"bucket,omitempty"`
	BucketPrefix *string `json:"bucketPrefix,omitempty"`
}
