package model

import (
	"maps"
	"net/url"
	"slices"
	"strings"

	"kops.local/kops/api"
	"kops.local/kops/internal/spec/fill"
)

// withPrefix returns the names with a common prefix.
func withPrefix(prefix string, names ...string) []string {
	full := make([]string, len(names))
	for i, n := range names {
		full[i] = prefix + n
	}
	return full
}

func (m *model) grantEtcdManager() grant {
	return grant{
		anyResource: []string{"ec2:DescribeInstances", "ec2:DescribeVolumes"},
		more: []statement{allowStatement(oneText("ec2:AttachVolume"), textList("*")).
			withCondition("StringEquals", keyResourceTag+clusterTag, oneText(m.name)).
			withCondition("StringEquals", keyResourceTag+tagRolePrefix+"master", oneText("1"))},
	}
}

func (m *model) grantKopsController() grant {
	g := grant{anyResource: []string{"ec2:DescribeInstances"}}
	if m.ipv6Only() {
		g.anyResource = append(g.anyResource, "ec2:DescribeNetworkInterfaces")
	}
	if m.repairs() {
		g.anyResource = append(g.anyResource, "autoscaling:DescribeAutoScalingInstances")
		g.owned = append(g.owned, "ec2:TerminateInstances")
	}
	return g
}

// repairs reports whether kops-controller replaces dead machines of any group.
func (m *model) repairs() bool {
	on := func(r *api.RepairSpec) bool { return r != nil && r.After != nil && r.After.Duration > 0 }
	return on(m.spec.Repair) || slices.ContainsFunc(m.Groups, func(g *api.InstanceGroup) bool { return on(g.Spec.Repair) })
}

// bucketFolder is a folder in a bucket.
type bucketFolder struct{ bucket, path string }

// parseBucketFolder parses a store's path. A store outside S3 needs no permissions; one in memory is treated
// as S3, so that previews can be made without a bucket.
func parseBucketFolder(store, memory string) (bucketFolder, bool) {
	u, err := url.Parse(store)
	if err != nil {
		return bucketFolder{}, false
	}
	switch path := strings.Trim(u.Path, "/"); u.Scheme {
	case "s3":
		return bucketFolder{u.Host, path}, true
	case "memfs":
		return bucketFolder{memory, strings.Trim(u.Host+"/"+path, "/")}, true
	}
	return bucketFolder{}, false
}

func (p bucketFolder) isInside(o bucketFolder) bool {
	return p.bucket == o.bucket && (o.path == "" || p.path == o.path || strings.HasPrefix(p.path, o.path+"/"))
}

// arn matches everything in the place.
func (p bucketFolder) arn(m *model) string {
	return m.arn("s3", "::"+strings.TrimSuffix(p.bucket+"/"+p.path, "/")+"/*")
}

// storeRoots returns the places that machines read, except those inside others.
func (m *model) storeRoots() []bucketFolder {
	var roots []bucketFolder
	for _, store := range []string{m.spec.ConfigStore.Base, m.spec.ConfigStore.Keypairs, m.spec.ConfigStore.Secrets} {
		p, ok := parseBucketFolder(store, "placeholder-read-bucket")
		if ok && !slices.ContainsFunc(roots, p.isInside) {
			roots = slices.DeleteFunc(roots, func(o bucketFolder) bool { return o.isInside(p) })
			roots = append(roots, p)
		}
	}
	return roots
}

// grantStore allows machines to read the cluster's files.
func (m *model) grantStore() grant { return m.grantFolders(nil) }

// grantStoreAndBackups also allows etcd-manager, which runs only on
// control planes, to write backups.
func (m *model) grantStoreAndBackups() grant {
	var backups []bucketFolder
	for _, e := range m.spec.EtcdClusters {
		if e.Backups == nil {
			continue
		}
		if p, ok := parseBucketFolder(e.Backups.BackupStore, "placeholder-write-bucket"); ok {
			backups = append(backups, p)
		}
	}
	return m.grantFolders(backups)
}

// grantFolders allows machines to read the cluster's files, to write to some places, and to read the
// settings and listings of both buckets.
func (m *model) grantFolders(written []bucketFolder) grant {
	g := grant{more: m.grantStoreKeys()}
	buckets := map[string]bool{}
	for _, p := range m.storeRoots() {
		buckets[p.bucket] = true
		g.more = append(g.more, allowStatement(textList("s3:Get*"), oneText(p.arn(m))))
	}
	for _, p := range written {
		buckets[p.bucket] = true
		g.more = append(g.more, allowStatement(textList(withPrefix("s3:", "DeleteObject", "DeleteObjectVersion", "GetObject", "PutObject")...), oneText(p.arn(m))))
	}
	for _, b := range slices.Sorted(maps.Keys(buckets)) {
		g.more = append(g.more, allowStatement(textList(withPrefix("s3:", "GetBucketLocation", "GetEncryptionConfiguration", "ListBucket", "ListBucketVersions")...),
			textList(m.arn("s3", "::"+b))))
	}
	return g
}

// dnsStatements allow changing the records of zones.
func (m *model) dnsStatements(zones ...string) []statement {
	return []statement{
		allowStatement(textList(withPrefix("route53:", "ChangeResourceRecordSets", "GetHostedZone", "ListResourceRecordSets")...),
			textList(withPrefix(m.arn("route53", "::hostedzone/"), zones...)...)),
		allowStatement(textList("route53:GetChange"), textList(m.arn("route53", "::change/*"))),
		allowStatement(textList("route53:ListHostedZones", "route53:ListTagsForResource"), textList("*")),
	}
}

// grantKeys allows the encryption of volumes and files with keys of the account.
func (m *model) grantKeys() grant {
	data := allowStatement(textList(withPrefix("kms:", "Decrypt", "DescribeKey", "Encrypt", "GenerateDataKey*", "ReEncrypt*")...), oneText("*"))
	if !fill.Or(m.spec.EncryptionConfig, false) { // encryptionConfig may name any key of the account
		data = data.withCondition("StringLike", "kms:ViaService", textList("ec2."+m.facts.Region+".amazonaws.com", "s3.*.amazonaws.com"))
	}
	return grant{more: []statement{
		allowStatement(oneText("kms:CreateGrant"), oneText("*")).withCondition("Bool", "kms:GrantIsForAWSResource", oneText("true")),
		data,
	}}
}

// grantWarmPools allows machines to report that they can be stopped.
func (m *model) grantWarmPools(r api.InstanceGroupRole) grant {
	for _, g := range m.groupsOf(r) {
		if w := warmPool(g); w != nil && w.EnableLifecycleHook {
			return grant{anyResource: []string{"autoscaling:DescribeLifecycleHooks"}, owned: []string{"autoscaling:CompleteLifecycleAction"}}
		}
	}
	return grant{}
}

// grantGPU allows machines with a GPU to look up the number of GPUs.
func (m *model) grantGPU(r api.InstanceGroupRole) grant {
	for _, g := range m.groupsOf(r) {
		if m.hasGPU(g) {
			return grant{anyResource: []string{"ec2:DescribeInstanceTypes"}}
		}
	}
	return grant{}
}

// hasGPU reports whether a group's machines run NVIDIA's driver.
func (m *model) hasGPU(g *api.InstanceGroup) bool {
	t, _ := m.facts.MachineType(machineType(g))
	c := g.Spec.Containerd
	return t.GPU && c != nil && c.NvidiaGPU != nil && fill.Or(c.NvidiaGPU.Enabled, false)
}

func (m *model) grantRegistry() grant {
	return grant{anyResource: withPrefix("ecr:", "BatchCheckLayerAvailability", "BatchGetImage", "DescribeRepositories", "GetAuthorizationToken",
		"GetDownloadUrlForLayer", "GetRepositoryPolicy", "ListImages")}
}

func (m *model) grantRegistryMirrors() grant {
	return grant{anyResource: withPrefix("ecr:", "BatchImportUpstreamImage", "CreateRepository", "ReplicateImage", "TagResource")}
}

func (m *model) grantAddresses() grant {
	return grant{anyResource: []string{"ec2:AssignIpv6Addresses"}}
}

// interfaceGroups are groups that interfaces may be given: their ARNs, and a further restriction.
type interfaceGroups struct {
	arns     texts
	restrict func(statement) statement
}

// networkGroups returns the groups that a pod network on control planes may give to the cluster's
// interfaces: the cluster's own groups, and those that its instance groups name.
func (m *model) networkGroups() []interfaceGroups {
	return append([]interfaceGroups{{textList(m.ec2ARN("security-group")), m.restrictToOwned}}, m.namedGroups(everyNode()...)...)
}

// networkGroupsOfWorkers leaves out control planes' groups: an interface
// with one of them can reach etcd.
func (m *model) networkGroupsOfWorkers() []interfaceGroups {
	own := func(s statement) statement {
		return m.restrictToOwned(s).withCondition("StringNotEquals", keyResourceTag+"Name", oneText(m.newSecurityGroup("masters", "").title))
	}
	return append([]interfaceGroups{{textList(m.ec2ARN("security-group")), own}}, m.namedGroups(api.RoleNode)...)
}

// namedGroups returns the user's security groups of instance groups with the roles.
func (m *model) namedGroups(roles ...api.InstanceGroupRole) []interfaceGroups {
	arns := map[string]bool{}
	for _, g := range m.groupsOf(roles...) {
		for _, id := range append(slices.Clone(g.Spec.AdditionalSecurityGroups), fill.Or(g.Spec.SecurityGroupOverride, "")) {
			if id != "" {
				arns[m.arn("ec2", "*:*:security-group/"+id)] = true
			}
		}
	}
	if len(arns) == 0 {
		return nil
	}
	return []interfaceGroups{{textList(slices.Sorted(maps.Keys(arns))...), func(s statement) statement { return s }}}
}

// interfaces allows a pod network to create interfaces with the cluster's tag, which its manifest
// makes it set, and to use those and the interfaces that machines start with, all with the given
// security groups only.
func (m *model) interfaces(groups []interfaceGroups, also ...string) []statement {
	nic, instance := m.ec2ARN("network-interface"), m.ec2ARN("instance")
	uses := append(withPrefix("ec2:", "AssignPrivateIpAddresses", "AttachNetworkInterface", "DeleteNetworkInterface",
		"ModifyNetworkInterfaceAttribute", "UnassignPrivateIpAddresses"), withPrefix("ec2:", also...)...)
	statements := []statement{
		m.restrictToCreated(allowStatement(oneText("ec2:CreateNetworkInterface"), textList(nic))),
		allowStatement(oneText("ec2:CreateNetworkInterface"), textList(m.ec2ARN("subnet"))),
		m.restrictToOwned(allowStatement(textSet(uses), textList(nic, instance))),
		m.restrictToCreated(allowStatement(oneText("ec2:CreateTags"), textList(nic))).withCondition("StringEquals", "ec2:CreateAction", oneText("CreateNetworkInterface")),
	}
	for _, g := range groups {
		statements = append(statements, g.restrict(allowStatement(textSet(withPrefix("ec2:", "CreateNetworkInterface", "ModifyNetworkInterfaceAttribute")), g.arns)))
	}
	return statements
}
