package model

import (
	"slices"

	"kops.local/kops/api"
)

// component is a program that uses the identity of its machines and is not an add-on.
type component struct {
	name string
	// order is the position of its statements in a policy, which is compared as text.
	order int
	// machines are the roles of the machines that run it.
	machines []api.InstanceGroupRole
	// when reports whether the cluster has it; nil means always.
	when  func(*model) bool
	grant func(*model) grant
}

// controlPlane returns the role of the machines that run nearly all components.
func controlPlane() []api.InstanceGroupRole { return []api.InstanceGroupRole{api.RoleControlPlane} }

// everyNode returns all roles except bastions.
func everyNode() []api.InstanceGroupRole {
	return []api.InstanceGroupRole{api.RoleControlPlane, api.RoleAPIServer, api.RoleNode}
}

func components() []component {
	return []component{
		{name: "etcd-manager", machines: controlPlane(), grant: (*model).grantEtcdManager},
		{name: "state store and backups", machines: controlPlane(), grant: (*model).grantStoreAndBackups},
		{name: "state store", machines: []api.InstanceGroupRole{api.RoleAPIServer}, grant: (*model).grantStore},
		{name: "keys", order: 50, machines: controlPlane(), grant: (*model).grantKeys},
		{name: "kops-controller", machines: controlPlane(), grant: (*model).grantKopsController},
		{name: "address management", machines: everyNode(), when: (*model).ipv6Only, grant: (*model).grantAddresses},
		{name: "registry", machines: everyNode(), when: (*model).pullsFromAccount, grant: (*model).grantRegistry},
		{name: "registry mirrors", machines: everyNode(), when: (*model).mirrorsRegistry, grant: (*model).grantRegistryMirrors},
	}
}

// machineGrants returns the permissions of machines of a role: for the machines' own programs, and
// for add-ons without a role.
func (m *model) machineGrants(r api.InstanceGroupRole) ([]grant, error) {
	var grants []grant
	for _, c := range components() {
		if slices.Contains(c.machines, r) && (c.when == nil || c.when(m)) {
			g := c.grant(m)
			g.order = c.order
			grants = append(grants, g)
		}
	}
	view := m.policyView(r)
	for _, a := range m.Addons.Or().Addons() {
		if a.Account.Name != "" && view.OwnRoles() {
			continue
		}
		p, err := view.policy(a)
		if err != nil {
			return nil, err
		}
		if p != nil && slices.Contains(p.Machines, r) {
			grants = append(grants, p.grant())
		}
	}
	slices.SortStableFunc(grants, func(a, b grant) int { return a.order - b.order })
	if r == api.RoleNode || r == api.RoleAPIServer {
		grants = append(grants, m.grantWarmPools(r))
	}
	return append(grants, m.grantGPU(r)), nil
}

// accountGrants returns the permissions of add-ons' service accounts, by account.
func (m *model) accountGrants() (map[string][]grant, error) {
	grants, view := map[string][]grant{}, m.policyView("")
	if !view.OwnRoles() {
		return grants, nil
	}
	for _, a := range m.Addons.Or().Addons() {
		if a.Account.Name == "" {
			continue
		}
		p, err := view.policy(a)
		if err != nil {
			return nil, err
		}
		if p != nil {
			grants[a.Account.Name] = append(grants[a.Account.Name], p.grant())
		}
	}
	return grants, nil
}

func (m *model) pullsFromAccount() bool {
	return m.spec.IAM != nil && m.spec.IAM.AllowContainerRegistry
}

func (m *model) mirrorsRegistry() bool {
	return m.spec.Containerd != nil && m.spec.Containerd.UseECRCredentialsForMirrors
}
