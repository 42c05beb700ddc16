// Package awsname defines the names that several stages must agree on for AWS: the code that
// creates an object, the code that lists it, and the add-ons that use it.
//
// It must not know the objects.
package awsname

import "kops.local/kops/internal/model/names"

// Length limits of AWS names, in bytes.
const (
	MaxRole         = 64 // IAM roles and instance profiles (IAM quotas)
	maxQueue        = 75 // the part before "-nth" in a queue's name, of 80 (SQS)
	maxEventRule    = 40 // the part before "-InstanceScheduledChange" in a rule's name, of 64 (EventBridge)
	MaxLoadBalancer = 32 // load balancers and target groups
)

// MachineRole returns the name of the IAM role and of the instance profile of a cluster's machines:
// masters, apiservers, nodes or bastions.
func MachineRole(machines, cluster string) string {
	return names.Short(machines+"."+cluster, MaxRole)
}

// AccountRole returns the name of the IAM role of a cluster's service account. Account and
// namespace may be patterns with stars.
func AccountRole(account, namespace, cluster string) string {
	return names.Short(names.Plain(account)+"."+names.Plain(namespace)+".sa."+cluster, MaxRole)
}

// StoreKeys returns the name of the Systems Manager parameter that holds the keys of a cluster's
// store if the store is not on AWS S3.
func StoreKeys(cluster string) string { return "/kops/" + cluster + "/s3-keys" }

// QueuePrefix returns the prefix of the names of a cluster's queues.
func QueuePrefix(cluster string) string { return names.Short(names.Dashed(cluster), maxQueue) }

// TerminationQueue returns the name of the queue that announces machines about to be terminated.
func TerminationQueue(cluster string) string { return QueuePrefix(cluster) + "-nth" }

// EventRulePrefix returns the prefix of the names of a cluster's event rules.
func EventRulePrefix(cluster string) string { return names.Short(cluster, maxEventRule) + "-" }
