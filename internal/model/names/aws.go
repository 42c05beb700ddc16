package names

// What several stages must name alike on AWS: what makes an object, what lists
// it, and the add-ons that use it.

// The bounds of names on AWS, in bytes.
const (
	MaxAWSRole         = 64 // IAM roles and instance profiles (IAM quotas)
	maxAWSQueue        = 75 // what precedes "-nth" in a queue's name, of 80 (SQS)
	maxAWSEventRule    = 40 // what precedes "-InstanceScheduledChange" in a rule's name, of 64 (EventBridge)
	MaxAWSLoadBalancer = 32 // load balancers and target groups
)

// AWSMachineRole is the name of the IAM role and of the instance profile of a
// cluster's machines: masters, apiservers, nodes or bastions.
func AWSMachineRole(machines, cluster string) string {
	return Short(machines+"."+cluster, MaxAWSRole)
}

// AWSAccountRole is the name of the IAM role of a cluster's service account.
// Account and namespace may be patterns with stars.
func AWSAccountRole(account, namespace, cluster string) string {
	return Short(Plain(account)+"."+Plain(namespace)+".sa."+cluster, MaxAWSRole)
}

// AWSQueuePrefix begins the names of a cluster's queues.
func AWSQueuePrefix(cluster string) string { return Short(Dashed(cluster), maxAWSQueue) }

// AWSTerminationQueue is the name of the queue that tells of machines about to end.
func AWSTerminationQueue(cluster string) string { return AWSQueuePrefix(cluster) + "-nth" }

// AWSEventRulePrefix begins the names of a cluster's event rules.
func AWSEventRulePrefix(cluster string) string { return Short(cluster, maxAWSEventRule) + "-" }
