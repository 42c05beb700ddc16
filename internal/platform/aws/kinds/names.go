package kinds

import (
	"errors"
	"slices"
	"strings"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/platform/aws/awsapi"
)

// lastSegment returns what follows the last slash: the name in an ARN.
func lastSegment(arn string) string { return arn[strings.LastIndex(arn, "/")+1:] }

// nameOf returns a reference's text. One that is not known yet is taken for the
// name of the node it refers to, which is what the kinds that are referred to
// in a key promise.
func nameOf(v resource.Value) string {
	text, known := v.Known()
	if !known {
		v.Refs(func(a resource.Address, _ string) { text = a.Name })
	}
	return text
}

// namesAsked returns the names that a list must ask for: the names of the desired objects and of
// the shared ones, each once.
func namesAsked(s resource.Scope) []string {
	names := slices.Clone(s.Names)
	for _, id := range s.Adopted {
		names = append(names, lastSegment(id))
	}
	return distinct(names)
}

// distinct returns the texts that are not empty, sorted, each once.
func distinct(texts []string) []string {
	out := slices.DeleteFunc(slices.Clone(texts), func(s string) bool { return s == "" })
	slices.Sort(out)
	return slices.Compact(out)
}

// keyParts returns the different texts before sep in keys, sorted.
func keyParts(keys []string, sep string) []string {
	var out []string
	for _, k := range keys {
		before, _, _ := strings.Cut(k, sep)
		out = append(out, before)
	}
	return distinct(out)
}

// inScope reports whether an object with the tags belongs to the cluster:
// made by kops or, where everything is asked for, by anyone.
func inScope(s resource.Scope, tags map[string]string) bool {
	return isOwned(tags, s.Cluster) && (s.All || tags[TagCluster] == s.Cluster)
}

// foreign is the error of an object that has a name which the cluster wants,
// but is not the cluster's.
func foreign(what, name, cluster string) error {
	return fault.Wrap(fault.Permanent, errors.New(what+" "+name+" exists and does not belong to the cluster "+cluster),
		"delete it, or hand it to the cluster with the tags "+TagCluster+"="+cluster+" and "+TagOwnerPrefix+cluster+"="+Owned)
}

// notYet makes an error retryable that says that something does not exist
// which an earlier step made: AWS takes seconds to tell all its parts.
func notYet(err error) error {
	if fault.Is(err, fault.Gone) {
		return fault.Wrap(fault.NotYet, err, "")
	}
	return err
}

// hasCode reports whether err is a service's answer with one of the codes.
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

// orNil returns nil for the empty text, which most requests must leave out.
func orNil(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}
