package model

import (
	"maps"
	"net/url"
	"slices"
	"strings"

	"kops.local/kops/api"
)

// prefixed returns names with what they have in common before each.
func prefixed(prefix string, names ...string) []string {
	full := make([]string, len(names))
	for i, n := range names {
		full[i] = prefix + n
	}
	return full
}

func (m *model) grantEtcdManager() grant {
	return grant{
		free: []string{"ec2:DescribeInstances", "ec2:DescribeVolumes"},
		more: []statement{allow(one("ec2:AttachVolume"), list("*")).
			under("StringEquals", keyResourceTag+clusterTag, one(m.name)).
			under("StringEquals", keyResourceTag+tagRolePrefix+"master", one("1"))},
	}
}

func (m *model) grantKopsController() grant {
	g := grant{free: []string{"ec2:DescribeInstances"}}
	if m.ipv6Only() {
		g.free = append(g.free, "ec2:DescribeNetworkInterfaces")
	}
	if m.repairs() {
		g.free = append(g.free, "autoscaling:DescribeAutoScalingInstances")
		g.owned = append(g.owned, "ec2:TerminateInstances")
	}
	return g
}

// repairs reports whether kops-controller replaces dead machines of any group.
func (m *model) repairs() bool {
	on := func(r *api.RepairSpec) bool { return r != nil && r.After != nil && r.After.Duration > 0 }
	return on(m.spec.Repair) || slices.ContainsFunc(m.Groups, func(g *api.InstanceGroup) bool { return on(g.Spec.Repair) })
}

// place is a folder of a bucket.
type place struct{ bucket, path string }

// placeOf reads a store's path. A store that is not in S3 needs no permission;
// one in memory is as if it were, so that previews can be made without a bucket.
func placeOf(store, memory string) (place, bool) {
	u, err := url.Parse(store)
	if err != nil {
		return place{}, false
	}
	switch path := strings.Trim(u.Path, "/"); u.Scheme {
	case "s3":
		return place{u.Host, path}, true
	case "memfs":
		return place{memory, strings.Trim(u.Host+"/"+path, "/")}, true
	}
	return place{}, false
}

func (p place) inside(o place) bool {
	return p.bucket == o.bucket && (o.path == "" || p.path == o.path || strings.HasPrefix(p.path, o.path+"/"))
}

// arn is all that is in the place.
func (p place) arn(m *model) string {
	return m.arn("s3", "::"+strings.TrimSuffix(p.bucket+"/"+p.path, "/")+"/*")
}

// storeRoots are the places that machines read, without those inside others.
func (m *model) storeRoots() []place {
	var roots []place
	for _, store := range []string{m.spec.ConfigStore.Base, m.spec.ConfigStore.Keypairs, m.spec.ConfigStore.Secrets} {
		p, ok := placeOf(store, "placeholder-read-bucket")
		if ok && !slices.ContainsFunc(roots, p.inside) {
			roots = slices.DeleteFunc(roots, func(o place) bool { return o.inside(p) })
			roots = append(roots, p)
		}
	}
	return roots
}

// grantStore lets machines read the cluster's files.
func (m *model) grantStore() grant { return m.grantPlaces(nil) }

// grantStoreAndBackups also lets etcd-manager, which runs on control planes
// only, write back-ups.
func (m *model) grantStoreAndBackups() grant {
	var backups []place
	for _, e := range m.spec.EtcdClusters {
		if e.Backups == nil {
			continue
		}
		if p, ok := placeOf(e.Backups.BackupStore, "placeholder-write-bucket"); ok {
			backups = append(backups, p)
		}
	}
	return m.grantPlaces(backups)
}

// grantPlaces lets machines read the cluster's files, write in some places, and
// ask for the buckets of both.
func (m *model) grantPlaces(written []place) grant {
	g := grant{more: m.grantStoreKeys()}
	buckets := map[string]bool{}
	for _, p := range m.storeRoots() {
		buckets[p.bucket] = true
		g.more = append(g.more, allow(list("s3:Get*"), one(p.arn(m))))
	}
	for _, p := range written {
		buckets[p.bucket] = true
		g.more = append(g.more, allow(list(prefixed("s3:", "DeleteObject", "DeleteObjectVersion", "GetObject", "PutObject")...), one(p.arn(m))))
	}
	for _, b := range slices.Sorted(maps.Keys(buckets)) {
		g.more = append(g.more, allow(list(prefixed("s3:", "GetBucketLocation", "GetEncryptionConfiguration", "ListBucket", "ListBucketVersions")...),
			list(m.arn("s3", "::"+b))))
	}
	return g
}

// dnsStatements let names of zones be kept.
func (m *model) dnsStatements(zones ...string) []statement {
	return []statement{
		allow(list(prefixed("route53:", "ChangeResourceRecordSets", "GetHostedZone", "ListResourceRecordSets")...),
			list(prefixed(m.arn("route53", "::hostedzone/"), zones...)...)),
		allow(list("route53:GetChange"), list(m.arn("route53", "::change/*"))),
		allow(list("route53:ListHostedZones", "route53:ListTagsForResource"), list("*")),
	}
}

// grantKeys lets volumes and files be encrypted by keys of the account.
func (m *model) grantKeys() grant {
	data := allow(list(prefixed("kms:", "Decrypt", "DescribeKey", "Encrypt", "GenerateDataKey*", "ReEncrypt*")...), one("*"))
	if !or(m.spec.EncryptionConfig, false) { // which may name any key of the account
		data = data.under("StringLike", "kms:ViaService", list("ec2."+m.facts.Region+".amazonaws.com", "s3.*.amazonaws.com"))
	}
	return grant{more: []statement{
		allow(one("kms:CreateGrant"), one("*")).under("Bool", "kms:GrantIsForAWSResource", one("true")),
		data,
	}}
}

// grantWarmPools lets machines say that they are ready to be stopped.
func (m *model) grantWarmPools(r api.InstanceGroupRole) grant {
	for _, g := range m.groupsOf(r) {
		if w := warmPool(g); w != nil && w.EnableLifecycleHook {
			return grant{free: []string{"autoscaling:DescribeLifecycleHooks"}, owned: []string{"autoscaling:CompleteLifecycleAction"}}
		}
	}
	return grant{}
}

// grantGPU lets machines with a GPU ask how many it is.
func (m *model) grantGPU(r api.InstanceGroupRole) grant {
	for _, g := range m.groupsOf(r) {
		if m.hasGPU(g) {
			return grant{free: []string{"ec2:DescribeInstanceTypes"}}
		}
	}
	return grant{}
}

// hasGPU reports whether a group's machines run NVIDIA's driver.
func (m *model) hasGPU(g *api.InstanceGroup) bool {
	t, _ := m.facts.MachineType(machineType(g))
	c := g.Spec.Containerd
	return t.GPU && c != nil && c.NvidiaGPU != nil && or(c.NvidiaGPU.Enabled, false)
}

func (m *model) grantRegistry() grant {
	return grant{free: prefixed("ecr:", "BatchCheckLayerAvailability", "BatchGetImage", "DescribeRepositories", "GetAuthorizationToken",
		"GetDownloadUrlForLayer", "GetRepositoryPolicy", "ListImages")}
}

func (m *model) grantRegistryMirrors() grant {
	return grant{free: prefixed("ecr:", "BatchImportUpstreamImage", "CreateRepository", "ReplicateImage", "TagResource")}
}

func (m *model) grantAddresses() grant { return grant{free: []string{"ec2:AssignIpv6Addresses"}} }

// securityGroups are some that interfaces may get: ARNs, and what bounds them further.
type securityGroups struct {
	arns  texts
	bound func(statement) statement
}

// networkGroups are those that a pod network on control planes may give to
// interfaces of the cluster: its own, and those that its instance groups name.
func (m *model) networkGroups() []securityGroups {
	return append([]securityGroups{{list(m.ec2ARN("security-group")), m.whereOwned}}, m.namedGroups(everyNode()...)...)
}

// networkGroupsOfWorkers leaves out control planes' groups: an interface that has them reaches
// etcd.
func (m *model) networkGroupsOfWorkers() []securityGroups {
	own := func(s statement) statement {
		return m.whereOwned(s).under("StringNotEquals", keyResourceTag+"Name", one(m.own("masters", "").called))
	}
	return append([]securityGroups{{list(m.ec2ARN("security-group")), own}}, m.namedGroups(api.RoleNode)...)
}

// namedGroups are the user's groups that instance groups of some roles have.
func (m *model) namedGroups(roles ...api.InstanceGroupRole) []securityGroups {
	arns := map[string]bool{}
	for _, g := range m.groupsOf(roles...) {
		for _, id := range append(slices.Clone(g.Spec.AdditionalSecurityGroups), or(g.Spec.SecurityGroupOverride, "")) {
			if id != "" {
				arns[m.arn("ec2", "*:*:security-group/"+id)] = true
			}
		}
	}
	if len(arns) == 0 {
		return nil
	}
	return []securityGroups{{list(slices.Sorted(maps.Keys(arns))...), func(s statement) statement { return s }}}
}

// interfaces lets a pod network make interfaces with the cluster's tag, which its
// manifest tells it to give, and use those and the ones that machines start with,
// all with some security groups only.
func (m *model) interfaces(groups []securityGroups, also ...string) []statement {
	nic, instance := m.ec2ARN("network-interface"), m.ec2ARN("instance")
	uses := append(prefixed("ec2:", "AssignPrivateIpAddresses", "AttachNetworkInterface", "DeleteNetworkInterface",
		"ModifyNetworkInterfaceAttribute", "UnassignPrivateIpAddresses"), prefixed("ec2:", also...)...)
	statements := []statement{
		m.whereMade(allow(one("ec2:CreateNetworkInterface"), list(nic))),
		allow(one("ec2:CreateNetworkInterface"), list(m.ec2ARN("subnet"))),
		m.whereOwned(allow(set(uses), list(nic, instance))),
		m.whereMade(allow(one("ec2:CreateTags"), list(nic))).under("StringEquals", "ec2:CreateAction", one("CreateNetworkInterface")),
	}
	for _, g := range groups {
		statements = append(statements, g.bound(allow(set(prefixed("ec2:", "CreateNetworkInterface", "ModifyNetworkInterfaceAttribute")), g.arns)))
	}
	return statements
}
