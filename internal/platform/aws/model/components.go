package model

import (
	"slices"

	"kops.local/kops/api"
)

// component is what machines do with their own identity, beside what add-ons do there.
type component struct {
	name string
	// order is where its statements stand in a policy, which is compared as a text.
	order int
	// machines are the roles whose machines run it.
	machines []api.InstanceGroupRole
	// when says whether the cluster has it; nil: always.
	when  func(*model) bool
	grant func(*model) grant
}

// controlPlane is where nearly all of them run.
func controlPlane() []api.InstanceGroupRole { return []api.InstanceGroupRole{api.RoleControlPlane} }

// everyNode is all machines but bastions.
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

// machineGrants are what machines of a role may do: what their own programs need, and
// add-ons that have no role of their own.
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

// accountGrants are what the service accounts of add-ons may do, by account.
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
