// Package dns is dns-controller: it publishes the names of a cluster, and those that
// annotations ask for, in the zones of a DNS service.
//
// The core is pure: Families.Wanted computes the wanted record sets from the cluster, and
// Owner.Plan compares them with a zone's. Watch observes the cluster, Controller carries plans
// out.
//
// A record set is changed only when it is known to be the cluster's. Each set has a TXT
// record beside it, its mark, which is written and removed in one change with the set:
//
//	api.internal.c.example.com          A    10.0.0.1
//	_kops-a.api.internal.c.example.com  TXT  heritage=kops,kops/cluster=c.example.com
//
// A mark is a record, not a file of the program, so that the next run finds the records of
// earlier ones, on any machine; the name alone does not identify them, because names of other
// clusters, and of a user's own machines, can lie within a cluster's name. The mark stands
// below the name, because a CNAME allows no other records at its name. A set without a mark
// is somebody else's: it is neither changed nor removed, and a wanted name that it
// occupies is refused. There are two exceptions: a set that already has the wanted content
// gets the mark, and the API's public name and names that end in .internal.CLUSTER are the
// cluster's even before they have marks, because the command line makes placeholders there.
//
// The names by which the API and kops-controller are reached keep their last addresses
// when the cluster shows none: an API server that can be asked is running somewhere.
//
// It must not know any DNS service; providers are handed to it.
package dns
