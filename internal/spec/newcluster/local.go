package newcluster

// localZone is the only zone of the local cloud.
const localZone = "local"

// localDefaults are those of clusters on this host: one zone, two nodes, a
// network that the host does not use, and the pod network that needs nothing
// but the machines.
func (b *builder) localDefaults() {
	if len(b.Zones) == 0 && len(b.ControlPlaneZones) == 0 {
		b.Zones = []string{localZone}
	}
	if b.NodeCount == 0 {
		b.NodeCount = 2
	}
	if b.Options.Networking == "" {
		b.Options.Networking = "kubenet"
	}
	if f := b.world.Facts; len(b.NetworkCIDRs) == 0 && f != nil && f.Local != nil && f.Local.Network != "" {
		b.NetworkCIDRs = []string{f.Local.Network}
	}
}
