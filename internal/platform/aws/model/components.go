package model

import (
	"slices"

	"kops.local/kops/api"
)

// component is something that runs in a cluster and calls AWS.
type component struct {
	name string
	// machines are the roles whose machines run it, with their own identity.
	machines []api.InstanceGroupRole
	// account is its service account in kube-system. Where service accounts have
	// roles of their own, its grant goes there, and not to machines.
	account string
	// when says whether the cluster has it; nil: always.
	when  func(*model) bool
	grant func(*model) grant
}

// controlPlane is where nearly all of them run.
func controlPlane() []api.InstanceGroupRole { return []api.InstanceGroupRole{api.RoleControlPlane} }

// apiServers are control planes, and machines that only run an API server.
func apiServers() []api.InstanceGroupRole {
	return []api.InstanceGroupRole{api.RoleControlPlane, api.RoleAPIServer}
}

// everyNode is all machines but bastions.
func everyNode() []api.InstanceGroupRole {
	return []api.InstanceGroupRole{api.RoleControlPlane, api.RoleAPIServer, api.RoleNode}
}

// components lists them in the order of their statements.
func components() []component {
	return []component{
		{name: "etcd-manager", machines: controlPlane(), grant: (*model).grantEtcdManager},
		{name: "state store and back-ups", machines: controlPlane(), grant: (*model).grantStoreAndBackups},
		{name: "state store", machines: []api.InstanceGroupRole{api.RoleAPIServer}, grant: (*model).grantStore},
		{name: "dns-controller", machines: controlPlane(), account: "dns-controller", when: (*model).publishesNames, grant: (*model).grantDNS},
		{name: "external-dns", account: "external-dns", when: (*model).hasExternalDNS, grant: (*model).grantDNS},
		{name: "cert-manager", machines: controlPlane(), account: "cert-manager", when: (*model).hasDNSChallenges, grant: (*model).grantDNSChallenges},
		{name: "volume driver", machines: controlPlane(), account: "ebs-csi-controller-sa", grant: (*model).grantVolumes},
		{name: "snapshots", machines: controlPlane(), account: "ebs-csi-controller-sa", when: (*model).hasSnapshots, grant: (*model).grantSnapshots},
		{name: "cloud controller", machines: controlPlane(), account: "aws-cloud-controller-manager", grant: (*model).grantCloudController},
		{name: "keys", machines: controlPlane(), grant: (*model).grantKeys},
		{name: "keys of volumes", account: "ebs-csi-controller-sa", grant: (*model).grantKeys},
		{name: "cluster autoscaler", machines: controlPlane(), account: "cluster-autoscaler", grant: (*model).grantAutoscaler},
		{name: "node termination handler", machines: controlPlane(), account: "aws-node-termination-handler", when: (*model).hasQueue, grant: (*model).grantTerminationHandler},
		{name: "node termination handler without a queue", account: "aws-node-termination-handler", when: (*model).hasOnlyMetadata, grant: (*model).grantTerminationReads},
		{name: "load balancer controller", machines: controlPlane(), account: "aws-load-balancer-controller", when: (*model).hasLoadBalancerController, grant: (*model).grantLoadBalancerController},
		{name: "karpenter", account: "karpenter", when: (*model).hasKarpenter, grant: (*model).grantKarpenter},
		{name: "keys of Karpenter's volumes", account: "karpenter", when: (*model).karpenterHasKeys, grant: (*model).grantKeys},
		{name: "kops-controller", machines: controlPlane(), grant: (*model).grantKopsController},
		{name: "address management", machines: everyNode(), when: (*model).ipv6Only, grant: (*model).grantAddresses},
		{name: "registry", machines: everyNode(), when: (*model).pullsFromAccount, grant: (*model).grantRegistry},
		{name: "registry mirrors", machines: everyNode(), when: (*model).mirrorsRegistry, grant: (*model).grantRegistryMirrors},
		{name: "Amazon VPC network", machines: apiServers(), when: (*model).usesAmazonVPC, grant: (*model).grantAmazonVPC},
		{name: "Amazon VPC network of workers", machines: []api.InstanceGroupRole{api.RoleNode}, when: (*model).usesAmazonVPC, grant: (*model).grantAmazonVPCWorker},
		{name: "Cilium with ENI", machines: apiServers(), when: (*model).usesCiliumENI, grant: (*model).grantCiliumENI},
		{name: "Cilium's agent with ENI", machines: []api.InstanceGroupRole{api.RoleNode}, when: (*model).usesCiliumENI, grant: (*model).grantCiliumAgent},
		{name: "Calico", machines: everyNode(), when: (*model).calicoSetsCheck, grant: (*model).grantCalico},
		{name: "kindnet", machines: everyNode(), when: (*model).usesKindnet, grant: (*model).grantSourceCheck},
		{name: "kube-router", machines: []api.InstanceGroupRole{api.RoleNode}, account: "kube-router", when: (*model).usesKubeRouter, grant: (*model).grantSourceCheck},
	}
}

// accountRoles reports whether components have roles of their service accounts.
func (m *model) accountRoles() bool {
	return m.spec.IAM != nil && or(m.spec.IAM.UseServiceAccountExternalPermissions, false)
}

// machineGrants are what machines of a role may do.
func (m *model) machineGrants(r api.InstanceGroupRole) []grant {
	var grants []grant
	for _, c := range components() {
		moved := c.account != "" && m.accountRoles()
		if slices.Contains(c.machines, r) && !moved && (c.when == nil || c.when(m)) {
			grants = append(grants, c.grant(m))
		}
	}
	if r == api.RoleNode || r == api.RoleAPIServer {
		grants = append(grants, m.grantWarmPools(r))
	}
	return append(grants, m.grantGPU(r))
}

// accountGrants are what the service accounts of components may do, by account.
func (m *model) accountGrants() map[string][]grant {
	grants := map[string][]grant{}
	if !m.accountRoles() {
		return grants
	}
	for _, c := range components() {
		if c.account != "" && m.runs(c) {
			grants[c.account] = append(grants[c.account], c.grant(m))
		}
	}
	return grants
}

// runs reports whether a component with a service account is there. Machines may
// do more than that: users run an autoscaler of their own on control planes.
func (m *model) runs(c component) bool {
	switch c.account {
	case "cluster-autoscaler":
		return m.spec.ClusterAutoscaler != nil && or(m.spec.ClusterAutoscaler.Enabled, false)
	case "dns-controller":
		return m.publishesNames() && !m.hasExternalDNS() && (m.spec.ExternalDNS == nil || m.spec.ExternalDNS.Provider != api.ExternalDNSProviderNone)
	}
	return c.when == nil || c.when(m)
}

func (m *model) publishesNames() bool { return m.dnsType() != api.DNSNone }

func (m *model) hasExternalDNS() bool {
	d := m.spec.ExternalDNS
	return m.publishesNames() && d != nil && d.Provider == api.ExternalDNSProviderExternalDNS
}

func (m *model) hasDNSChallenges() bool {
	c := m.spec.CertManager
	return c != nil && or(c.Enabled, false) && len(c.HostedZoneIDs) > 0
}

func (m *model) hasSnapshots() bool {
	return m.spec.SnapshotController != nil && or(m.spec.SnapshotController.Enabled, false)
}

func (m *model) hasLoadBalancerController() bool {
	return m.aws.LoadBalancerController != nil && or(m.aws.LoadBalancerController.Enabled, false)
}

func (m *model) hasKarpenter() bool { return m.spec.Karpenter != nil && m.spec.Karpenter.Enabled }

// karpenterHasKeys reports whether machines that Karpenter makes have a root volume
// that a key of the user's encrypts.
func (m *model) karpenterHasKeys() bool {
	return m.hasKarpenter() && slices.ContainsFunc(m.groupsOf(api.RoleNode), func(g *api.InstanceGroup) bool {
		v := g.Spec.RootVolume
		return g.Spec.Manager == api.ManagerKarpenter && v != nil && or(v.EncryptionKey, "") != ""
	})
}

func (m *model) pullsFromAccount() bool {
	return m.spec.IAM != nil && m.spec.IAM.AllowContainerRegistry
}

func (m *model) mirrorsRegistry() bool {
	return m.spec.Containerd != nil && m.spec.Containerd.UseECRCredentialsForMirrors
}

func (m *model) usesAmazonVPC() bool  { return m.spec.Networking.AmazonVPC != nil }
func (m *model) usesKindnet() bool    { return m.spec.Networking.Kindnet != nil }
func (m *model) usesKubeRouter() bool { return m.spec.Networking.KubeRouter != nil }

func (m *model) usesCiliumENI() bool {
	return m.spec.Networking.Cilium != nil && m.spec.Networking.Cilium.IPAM == "eni"
}

// calicoSetsCheck reports whether Calico switches the source/destination check of machines off.
func (m *model) calicoSetsCheck() bool {
	c := m.spec.Networking.Calico
	return c != nil && c.AWSSrcDstCheck != "DoNothing" && !m.ipv6Only()
}
