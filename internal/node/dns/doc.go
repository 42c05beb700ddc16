// Package dns is dns-controller: it publishes the names of a cluster, and those that
// annotations request, in the zones of a DNS service.
//
// The core is pure: Rules.Desired computes the wanted record sets from the cluster, and
// Owner.Plan compares them with a zone's. Watch observes the cluster, Controller carries plans
// out.
//
// A record set is changed only if it is known to be the cluster's. Each set has an
// accompanying TXT record, its mark, which is written and removed in the same change as the
// set:
//
//	api.internal.c.example.com          A    10.0.0.1
//	_kops-a.api.internal.c.example.com  TXT  heritage=kops,kops/cluster=c.example.com
//
// A mark is a record, not a file of the program, so that the next run finds the records of
// earlier ones, on any machine; the name alone does not identify them, because names of other
// clusters, and of a user's own machines, can lie within a cluster's name. The mark is below
// the name, because a CNAME allows no other records at its name. A set without a mark belongs
// to someone else: it is neither changed nor removed, and a wanted name that it occupies is
// refused. There are two exceptions: a set that already has the wanted content gets the mark,
// and the API's public name and names that end in .internal.CLUSTER are the cluster's even
// before they have marks, because the command line creates placeholders there.
//
// The names by which the API and kops-controller are reached keep their last addresses if the
// cluster shows none: the cluster's state could be read, so an API server is running
// somewhere.
//
// It must not know any DNS service; providers are passed to it.
package dns
