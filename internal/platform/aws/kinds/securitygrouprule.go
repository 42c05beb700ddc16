package kinds

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"kops.local/kops/internal/contract/ports"
	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/engine/resource"
)

// SecurityGroupRule allows traffic into or out of a group. Exactly one of Source, CIDRs, IPv6CIDRs
// and PrefixLists is set; a list contains one item.
type SecurityGroupRule struct {
	Group resource.Value `res:"replace" tf:"security_group_id"`
	Type  string         `res:"replace" tf:"type"` // "ingress" or "egress"
	// Protocol is "tcp", "udp", "icmp", "icmpv6", "-1" for all, or a protocol's number.
	Protocol string `res:"replace" tf:"protocol"`
	// FromPort and ToPort are a range of ports, or ICMP's type and code. They are 0 and 0 for all
	// protocols, 0 and 65535 for a protocol given by its number.
	FromPort int `res:"replace" tf:"from_port,zero"`
	ToPort   int `res:"replace" tf:"to_port,zero"`

	Source      resource.Value `res:"replace" tf:"source_security_group_id"`
	CIDRs       []string       `res:"replace" tf:"cidr_blocks"`
	IPv6CIDRs   []string       `res:"replace" tf:"ipv6_cidr_blocks"`
	PrefixLists []string       `res:"replace" tf:"prefix_list_ids"`

	// Tags are the group's, with the rule's name. Terraform's resource has no tags.
	Tags Tags

	ID string `res:"out,id" out:"id" tf:"security_group_rule_id"`
	// Found means that the rule existed in a shared group before the cluster needed it. A deletion
	// leaves it there, without the cluster's tags.
	Found bool `res:"out"`
	// Foreign means that someone else added the rule to one of the cluster's groups.
	Foreign bool `res:"out"`
}

// tagFound marks a rule that the cluster did not create. It does not have the prefix of kops' own
// tags, so updates keep it.
const tagFound = "kops-found"

const (
	ingress = "ingress"
	egress  = "egress"
)

// SecurityGroupRules is the kind of SecurityGroupRule.
var SecurityGroupRules = resource.Kind[SecurityGroupRule, *Client]{
	Name:  "aws_security_group_rule",
	API:   apiEC2,
	Phase: resource.Security,
	Tasks: []string{"SecurityGroupRule"},
	Early: true,
	Key:   ruleKey,
	Tidy: func(r *SecurityGroupRule) {
		r.CIDRs, r.IPv6CIDRs = canonicalRanges(r.CIDRs), canonicalRanges(r.IPv6CIDRs)
	},
	List:    listRules,
	Create:  createRule,
	Grants:  allowsAddresses,
	Foreign: func(r *SecurityGroupRule) bool { return r.Foreign },
	Update: []resource.Setter[SecurityGroupRule, *Client]{
		tagSetter(func(r *SecurityGroupRule) (string, map[string]string) { return r.ID, r.Tags }),
	},
	Delete: deleteRule,
}

// allowsAddresses reports whether kops created a rule for a list of addresses, such as
// kubernetesApiAccess. It excludes rules between groups, because running machines may still need
// them, and rules without tags, which users may have created.
func allowsAddresses(r *SecurityGroupRule) bool {
	return r.Type == ingress && len(r.CIDRs)+len(r.IPv6CIDRs)+len(r.PrefixLists) > 0 && isOwned(r.Tags, r.Tags[TagCluster])
}

// ruleKey returns everything that distinguishes rules: the API rejects two rules with the same key.
func ruleKey(r *SecurityGroupRule) string {
	peer := nameOf(r.Source) + strings.Join(r.CIDRs, ",") + strings.Join(r.IPv6CIDRs, ",") + strings.Join(r.PrefixLists, ",")
	return fmt.Sprintf("%s %s %s %d-%d %s", nameOf(r.Group), r.Type, r.Protocol, r.FromPort, r.ToPort, peer)
}

// listRules lists, in the cluster's groups, the rules that kops created
// or would create, and foreign rules that allow addresses; in shared
// groups, the wanted rules and those that a previous spec wanted.
func listRules(ctx context.Context, c *Client, s resource.Scope) ([]*SecurityGroupRule, error) {
	own, err := ownSecurityGroups(ctx, c, s)
	if err != nil {
		return nil, err
	}
	names, ids := map[string]string{}, sharedGroups(s.Names)
	for _, g := range own {
		id := aws.ToString(g.GroupId)
		names[id] = aws.ToString(g.GroupName)
		ids = append(ids, id)
	}
	ids = distinct(ids)
	wanted, shared := map[string]bool{}, sharedGroups(s.Names)
	for _, n := range s.Names {
		wanted[canonical(n, names)] = true
	}
	list, err := describeRules(ctx, c, "group-id", ids...)
	if err != nil {
		return nil, err
	}
	var out []*SecurityGroupRule
	for _, d := range list {
		r := ruleOf(d)
		group, ours := names[aws.ToString(d.GroupId)]
		if wanted[canonical(ruleKey(r), names)] || ours && (s.All || r.Tags[TagCluster] == s.Cluster || isPrunable(group, s.Cluster, r)) {
			out = append(out, r)
		} else if !ours && !s.All && isOwned(r.Tags, s.Cluster) && slices.Contains(shared, aws.ToString(d.GroupId)) {
			out = append(out, markForeign(r)) // from a previous spec
		} else if ours && allowsOtherAddresses(d) {
			r.Foreign = true
			out = append(out, r)
		}
	}
	if s.All {
		elsewhere, err := rulesInOtherGroups(ctx, c, s.Cluster, names)
		return append(out, elsewhere...), err
	}
	return out, nil
}

// rulesInOtherGroups returns the cluster's rules in groups that it does not own; only their tags
// identify them.
func rulesInOtherGroups(ctx context.Context, c *Client, cluster string, own map[string]string) ([]*SecurityGroupRule, error) {
	list, err := describeRules(ctx, c, "tag:"+TagOwnerPrefix+cluster, Owned)
	rules, err := convert(list, err, ruleOf)
	rules = slices.DeleteFunc(rules, func(r *SecurityGroupRule) bool {
		_, ours := own[r.Group.Text()]
		return ours || !isOwned(r.Tags, cluster)
	})
	for _, r := range rules {
		markForeign(r)
	}
	return rules, err
}

// markForeign sets whether a rule in a shared group was found there. Even without the mark, this
// includes the rule that allows all outgoing traffic, which AWS adds to every new group: without
// it, other members of the group would be cut off.
func markForeign(r *SecurityGroupRule) *SecurityGroupRule {
	r.Found = r.Tags[tagFound] != "" || r.Type == egress && r.Protocol == "-1" && slices.Equal(r.CIDRs, []string{"0.0.0.0/0"})
	return r
}

// describeRules returns the rules that match a filter, with as many
// filter values per call as the API accepts.
func describeRules(ctx context.Context, c *Client, by string, values ...string) ([]ec2types.SecurityGroupRule, error) {
	const most = 200 // values of one filter
	var out []ec2types.SecurityGroupRule
	for some := range slices.Chunk(values, most) {
		list, err := oncePerSnapshot(ctx, c, "rules by "+by+" "+strings.Join(some, " "), func(ctx context.Context) ([]ec2types.SecurityGroupRule, error) {
			return pages(ctx, ec2.NewDescribeSecurityGroupRulesPaginator(c.EC2, &ec2.DescribeSecurityGroupRulesInput{
				Filters: []ec2types.Filter{filter(by, some...)}}),
				func(o *ec2.DescribeSecurityGroupRulesOutput) []ec2types.SecurityGroupRule {
					return o.SecurityGroupRules
				})
		})
		if err != nil {
			return nil, err
		}
		out = append(out, list...)
	}
	return out, nil
}

// sharedGroup returns the id at the beginning of the node's name of a shared group, as in
// "sg-0123-masters"; the id alone is also accepted.
func sharedGroup(name string) (string, bool) {
	rest, ok := strings.CutPrefix(name, "sg-")
	if !ok {
		return "", false
	}
	hex, _, _ := strings.Cut(rest, "-")
	return "sg-" + hex, true
}

// sharedGroups returns the ids of the shared groups at the beginning of rule keys.
func sharedGroups(keys []string) []string {
	var out []string
	for _, k := range keys {
		group, _, _ := strings.Cut(k, " ")
		if id, ok := sharedGroup(group); ok {
			out = append(out, id)
		}
	}
	return out
}

// canonical makes the key of a wanted rule, whose groups may be referred to by the names of their
// nodes, equal to the key of the observed rule: the cluster's own groups are written by name,
// shared groups by id.
func canonical(key string, names map[string]string) string {
	parts := strings.Split(key, " ")
	for _, i := range []int{0, len(parts) - 1} {
		if name, ok := names[parts[i]]; ok {
			parts[i] = name
		} else if id, ok := sharedGroup(parts[i]); ok {
			parts[i] = id
		}
	}
	return strings.Join(parts, " ")
}

// allowsOtherAddresses reports whether a rule that does not belong to the cluster allows addresses, and
// was not added for load balancers by controllers in the cluster.
func allowsOtherAddresses(d ec2types.SecurityGroupRule) bool {
	why := aws.ToString(d.Description)
	return !aws.ToBool(d.IsEgress) && d.ReferencedGroupInfo == nil && !strings.HasPrefix(why, "kubernetes.io/rule/") && !strings.HasPrefix(why, "elbv2.k8s.aws/")
}

// isPrunable reports whether a rule without tags is one that kops creates in the group. The rules
// that controllers in the cluster add have other ports.
func isPrunable(group, cluster string, r *SecurityGroupRule) bool {
	if r.Type != ingress {
		return false
	}
	var known []int
	icmp := false
	switch strings.TrimSuffix(group, "."+cluster) {
	case "masters":
		known, icmp = []int{22, 179, 443, 2380, 2381, 2383, ports.Controller, 4001, 4002, 4004, 4789, 8443}, true
	case "nodes", "bastion-elb":
		known = []int{22}
	case "bastion":
		known, icmp = []int{22}, true
	case "api-elb":
		known = []int{443, 8443}
	}
	switch r.Protocol {
	case "tcp", "udp":
		return r.FromPort == r.ToPort && slices.Contains(known, r.FromPort)
	case "icmp": // path MTU discovery: destination unreachable, fragmentation needed
		return icmp && r.FromPort == 3 && r.ToPort == 4
	case "icmpv6":
		return icmp && r.FromPort == -1 && r.ToPort == -1
	}
	return false
}

func ruleOf(d ec2types.SecurityGroupRule) *SecurityGroupRule {
	r := &SecurityGroupRule{Group: text(d.GroupId), Type: ingress, Protocol: aws.ToString(d.IpProtocol),
		FromPort: int(aws.ToInt32(d.FromPort)), ToPort: int(aws.ToInt32(d.ToPort)),
		Tags: tagMap(d.Tags), ID: aws.ToString(d.SecurityGroupRuleId)}
	if aws.ToBool(d.IsEgress) {
		r.Type = egress
	}
	switch r.Protocol {
	case "tcp", "udp", "icmp", "icmpv6":
	case "-1":
		r.FromPort, r.ToPort = 0, 0
	default: // AWS ignores the ports of other protocols
		r.FromPort, r.ToPort = 0, 65535
	}
	if d.ReferencedGroupInfo != nil {
		r.Source = text(d.ReferencedGroupInfo.GroupId)
	}
	r.CIDRs, r.IPv6CIDRs, r.PrefixLists = listOf(d.CidrIpv4), listOf(d.CidrIpv6), listOf(d.PrefixListId)
	return r
}

// listOf returns a list of one item, or nil for an empty text.
func listOf(p *string) []string {
	if aws.ToString(p) == "" {
		return nil
	}
	return []string{*p}
}

func permission(r *SecurityGroupRule) []ec2types.IpPermission {
	p := ec2types.IpPermission{IpProtocol: &r.Protocol}
	if r.Protocol != "-1" {
		p.FromPort, p.ToPort = aws.Int32(int32(r.FromPort)), aws.Int32(int32(r.ToPort))
	}
	if g := r.Source.Text(); g != "" {
		p.UserIdGroupPairs = []ec2types.UserIdGroupPair{{GroupId: &g}}
	}
	for _, v := range r.CIDRs {
		p.IpRanges = append(p.IpRanges, ec2types.IpRange{CidrIp: &v})
	}
	for _, v := range r.IPv6CIDRs {
		p.Ipv6Ranges = append(p.Ipv6Ranges, ec2types.Ipv6Range{CidrIpv6: &v})
	}
	for _, v := range r.PrefixLists {
		p.PrefixListIds = append(p.PrefixListIds, ec2types.PrefixListId{PrefixListId: &v})
	}
	return []ec2types.IpPermission{p}
}

// createRule adds the rule or, if an equal rule exists, makes that the cluster's by tagging it.
// Every new group has such a rule: it allows all outgoing traffic.
func createRule(ctx context.Context, c *Client, r *SecurityGroupRule) error {
	if r.Type == egress && r.Protocol == "-1" {
		if done, err := adoptRule(ctx, c, r); done || err != nil {
			return err
		}
	}
	made, err := authorize(ctx, c, r)
	if hasCode(err, "InvalidPermission.Duplicate") {
		done, aerr := adoptRule(ctx, c, r)
		if done || aerr != nil {
			return aerr
		}
		return fault.Wrap(fault.NotYet, err, "") // it exists, but is not listed yet
	}
	if err == nil && len(made) == 1 {
		r.ID = aws.ToString(made[0].SecurityGroupRuleId)
	}
	return err
}

func authorize(ctx context.Context, c *Client, r *SecurityGroupRule) ([]ec2types.SecurityGroupRule, error) {
	tags := tagSpec(ec2types.ResourceTypeSecurityGroupRule, r.Tags)
	if r.Type == egress {
		o, err := c.EC2.AuthorizeSecurityGroupEgress(ctx, &ec2.AuthorizeSecurityGroupEgressInput{
			GroupId: stringOrNil(r.Group.Text()), IpPermissions: permission(r), TagSpecifications: tags})
		if err != nil {
			return nil, err
		}
		return o.SecurityGroupRules, nil
	}
	o, err := c.EC2.AuthorizeSecurityGroupIngress(ctx, &ec2.AuthorizeSecurityGroupIngressInput{
		GroupId: stringOrNil(r.Group.Text()), IpPermissions: permission(r), TagSpecifications: tags})
	if err != nil {
		return nil, err
	}
	return o.SecurityGroupRules, nil
}

// adoptRule tags a rule that equals r, if there is one.
func adoptRule(ctx context.Context, c *Client, r *SecurityGroupRule) (bool, error) {
	list, err := describeRules(ctx, c, "group-id", r.Group.Text())
	if err != nil {
		return false, retryIfGone(err)
	}
	for _, d := range list {
		if have := ruleOf(d); ruleKey(have) == ruleKey(r) {
			r.ID = have.ID
			return true, setEC2Tags(ctx, c, have.ID, have.Tags, adoptedTags(have.Tags, r.Tags))
		}
	}
	return false, nil
}

// adoptedTags returns the tags of a rule that the cluster adopts, with a mark unless the cluster
// created the rule.
func adoptedTags(have, want Tags) Tags {
	if isOwned(have, want[TagCluster]) {
		return want
	}
	out := maps.Clone(want)
	out[tagFound] = "true"
	return out
}

// deleteRule removes a rule. If the rule was found in a shared group, deleteRule only removes the
// cluster's tags.
func deleteRule(ctx context.Context, c *Client, r *SecurityGroupRule) error {
	if r.Found {
		in := &ec2.DeleteTagsInput{Resources: []string{r.ID}}
		for _, k := range []string{TagCluster, TagOwnerPrefix + r.Tags[TagCluster], tagFound, "Name"} {
			in.Tags = append(in.Tags, ec2types.Tag{Key: &k})
		}
		_, err := c.EC2.DeleteTags(ctx, in)
		return fault.IgnoreGone(err)
	}
	if r.Type == egress {
		_, err := c.EC2.RevokeSecurityGroupEgress(ctx, &ec2.RevokeSecurityGroupEgressInput{
			GroupId: stringOrNil(r.Group.Text()), SecurityGroupRuleIds: []string{r.ID}})
		return fault.IgnoreGone(err)
	}
	_, err := c.EC2.RevokeSecurityGroupIngress(ctx, &ec2.RevokeSecurityGroupIngressInput{
		GroupId: stringOrNil(r.Group.Text()), SecurityGroupRuleIds: []string{r.ID}})
	return fault.IgnoreGone(err)
}
