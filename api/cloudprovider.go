package api

// CloudProviderID names a cloud as users write it.
type CloudProviderID string

// Platforms of a cluster. CloudMetal has no member in CloudProviderSpec: a label of the
// cluster selects it (LabelMetalCloud).
const (
	CloudAWS       CloudProviderID = "aws"
	CloudAzure     CloudProviderID = "azure"
	CloudDO        CloudProviderID = "digitalocean"
	CloudGCE       CloudProviderID = "gce"
	CloudHetzner   CloudProviderID = "hetzner"
	CloudLinode    CloudProviderID = "linode"
	CloudLocal     CloudProviderID = "local" // the machine that kops runs on; kOps does not support it
	CloudMetal     CloudProviderID = "metal"
	CloudOpenstack CloudProviderID = "openstack"
	CloudScaleway  CloudProviderID = "scaleway"
)

// CloudProviderID returns the cloud of the cluster: metal if its label says so, else the
// first member set in spec.cloudProvider, else the label's value, which names a platform
// that another program provides, or "".
func (c *Cluster) CloudProviderID() CloudProviderID {
	labelled := CloudProviderID(c.Labels[LabelMetalCloud])
	if ids := c.Spec.CloudProvider.IDs(); len(ids) > 0 && labelled != CloudMetal {
		return ids[0]
	}
	return labelled
}

// IDs returns the clouds whose member is set; a valid spec has exactly one.
func (s *CloudProviderSpec) IDs() []CloudProviderID {
	var ids []CloudProviderID
	for _, m := range []struct {
		id  CloudProviderID
		set bool
	}{
		{CloudAWS, s.AWS != nil},
		{CloudAzure, s.Azure != nil},
		{CloudDO, s.DO != nil},
		{CloudGCE, s.GCE != nil},
		{CloudHetzner, s.Hetzner != nil},
		{CloudLinode, s.Linode != nil},
		{CloudLocal, s.Local != nil},
		{CloudOpenstack, s.Openstack != nil},
		{CloudScaleway, s.Scaleway != nil},
	} {
		if m.set {
			ids = append(ids, m.id)
		}
	}
	return ids
}

// IsControlPlane reports whether the group's machines run the control plane and etcd.
func (g *InstanceGroup) IsControlPlane() bool { return g.Spec.Role == RoleControlPlane }

// IsBastion reports whether the group's machines are SSH entry points and not nodes.
func (g *InstanceGroup) IsBastion() bool { return g.Spec.Role == RoleBastion }

// HasAPIServer reports whether the group's machines run an API server.
func (g *InstanceGroup) HasAPIServer() bool {
	return g.Spec.Role == RoleControlPlane || g.Spec.Role == RoleAPIServer
}
