// Package awsname says the names that several stages must give alike on AWS: what makes
// an object, what lists it, and the add-ons that use it.
//
// It must not know the objects.
package awsname

import "kops.local/kops/internal/model/names"

// The bounds of names on AWS, in bytes.
const (
	MaxRole         = 64 // IAM roles and instance profiles (IAM quotas)
	maxQueue        = 75 // what precedes "-nth" in a queue's name, of 80 (SQS)
	maxEventRule    = 40 // what precedes "-InstanceScheduledChange" in a rule's name, of 64 (EventBridge)
	MaxLoadBalancer = 32 // load balancers and target groups
)

// MachineRole is the name of the IAM role and of the instance profile of a
// cluster's machines: masters, apiservers, nodes or bastions.
func MachineRole(machines, cluster string) string {
	return names.Short(machines+"."+cluster, MaxRole)
}

// AccountRole is the name of the IAM role of a cluster's service account.
// Account and namespace may be patterns with stars.
func AccountRole(account, namespace, cluster string) string {
	return names.Short(names.Plain(account)+"."+names.Plain(namespace)+".sa."+cluster, MaxRole)
}

// StoreKeys is the name of the parameter of Systems Manager that holds the keys of a
// cluster's store, where that is not on S3 of AWS.
func StoreKeys(cluster string) string { return "/kops/" + cluster + "/s3-keys" }

// QueuePrefix begins the names of a cluster's queues.
func QueuePrefix(cluster string) string { return names.Short(names.Dashed(cluster), maxQueue) }

// TerminationQueue is the name of the queue that announces machines about to end.
func TerminationQueue(cluster string) string { return QueuePrefix(cluster) + "-nth" }

// EventRulePrefix begins the names of a cluster's event rules.
func EventRulePrefix(cluster string) string { return names.Short(cluster, maxEventRule) + "-" }
