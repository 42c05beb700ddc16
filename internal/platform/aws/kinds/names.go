package kinds

import (
	"errors"
	"slices"
	"strings"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/platform/aws/awsapi"
)

// lastSegment returns the text after the last slash: the name in an ARN.
func lastSegment(arn string) string { return arn[strings.LastIndex(arn, "/")+1:] }

// nameOf returns a reference's text. If it is not known yet, nameOf returns the name of the node
// that it refers to; kinds that keys refer to guarantee that it is the same.
func nameOf(v resource.Value) string {
	text, known := v.Known()
	if !known {
		v.Refs(func(a resource.Address, _ string) { text = a.Name })
	}
	return text
}

// namesToList returns the names to list: those of the desired objects and of the shared ones,
// without duplicates.
func namesToList(s resource.Scope) []string {
	names := slices.Clone(s.Names)
	for _, id := range s.Adopted {
		names = append(names, lastSegment(id))
	}
	return distinct(names)
}

// distinct returns the non-empty texts, sorted and without duplicates.
func distinct(texts []string) []string {
	out := slices.DeleteFunc(slices.Clone(texts), func(s string) bool { return s == "" })
	slices.Sort(out)
	return slices.Compact(out)
}

// keyParts returns the distinct prefixes of keys up to sep, sorted.
func keyParts(keys []string, sep string) []string {
	var out []string
	for _, k := range keys {
		before, _, _ := strings.Cut(k, sep)
		out = append(out, before)
	}
	return distinct(out)
}

// tagNodeClass is a tag of what Karpenter creates, in addition to those of its machines' group.
const tagNodeClass = "karpenter.k8s.aws/ec2nodeclass"

// isInScope reports whether an object with the tags belongs to the cluster: created by kops or, if
// s.All is set, by anyone.
func isInScope(s resource.Scope, tags map[string]string) bool {
	return isOwned(tags, s.Cluster) && (s.All || tags[TagCluster] == s.Cluster && tags[tagNodeClass] == "")
}

// foreignError returns the error for an object that has a name that the cluster wants, but does not
// belong to the cluster.
func foreignError(what, name, cluster string) error {
	return fault.Wrap(fault.Permanent, errors.New(what+" "+name+" exists and does not belong to the cluster "+cluster),
		"delete it, or give it to the cluster with the tags "+TagCluster+"="+cluster+" and "+TagOwnerPrefix+cluster+"="+Owned)
}

// retryIfGone makes a Gone error retryable if an earlier step created the object: it takes seconds until
// all of AWS' servers know it.
func retryIfGone(err error) error {
	if fault.Is(err, fault.Gone) {
		return fault.Wrap(fault.NotYet, err, "")
	}
	return err
}

// hasCode reports whether err is a service's error with one of the codes.
func hasCode(err error, codes ...string) bool {
	code := awsapi.Code(err)
	return code != "" && slices.Contains(codes, code)
}

// deref returns what p points to, or the zero value.
func deref[T any](p *T) T {
	if p == nil {
		var none T
		return none
	}
	return *p
}

// stringOrNil returns nil for an empty text, which most requests must leave out.
func stringOrNil(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}
