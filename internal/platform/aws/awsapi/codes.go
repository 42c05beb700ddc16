package awsapi

import (
	"slices"
	"strings"

	"kops.local/kops/internal/engine/fault"
)

// Sources of the codes: "Error codes for the Amazon EC2 API" and the pages
// "Common Errors" and "Actions" of each service's API reference.

const (
	remedyCredentials = "log in again (aws sso login), or set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
	remedyClock       = "set this machine's clock: AWS rejects requests whose time is minutes off"
	remedyName        = "a resource that does not belong to this cluster already has this name; delete it or choose another name"
	remedyGone        = "check the identifier in the cluster's spec"
	remedyType        = "choose another machine type, or another zone"
	remedyVolume      = "choose another type, size or zone for the volume"
	remedyTags        = "use fewer cloudLabels: AWS limits the number of tags"
)

// exactClass returns the class and the remedy of codes that always mean the same.
func exactClass(code string) (fault.Class, string) {
	switch code {
	case "RequestLimitExceeded", "Throttling", "ThrottlingException", "ThrottledException", "RequestThrottled",
		"RequestThrottledException", "TooManyRequestsException", "PriorRequestNotComplete", "SlowDown",
		"EC2ThrottledException", "TransactionInProgressException", "ProvisionedThroughputExceededException",
		"BandwidthLimitExceeded", "Unavailable", "ServiceUnavailable", "ServiceUnavailableException", "KMSThrottlingException":
		return fault.Throttled, ""
	case "InternalError", "InternalFailure", "InternalServerError", "InternalServiceError", "ServerInternal",
		"RequestTimeout", "RequestTimeoutException", "ServiceFailure", "ServiceTimeout":
		return fault.Lost, ""
	case "ExpiredToken", "ExpiredTokenException", "InvalidClientTokenId", "UnrecognizedClientException", "AuthFailure",
		"MissingAuthenticationToken", "InvalidAccessKeyId", "SignatureDoesNotMatch", "IncompleteSignature", "TokenRefreshRequired":
		return fault.Denied, remedyCredentials
	case "RequestExpired", "RequestTimeTooSkewed", "InvalidSignatureException":
		return fault.Denied, remedyClock
	case "OptInRequired", "Blocked", "PendingVerification", "SubscriptionRequiredException", "RegionDisabledException":
		return fault.Denied, "activate or subscribe the account first, as the message says"
	case "DependencyViolation", "ResourceInUse", "ResourceInUseException", "DeleteConflict", "IncorrectState",
		"IncorrectInstanceState", "IncorrectModificationState", "VolumeInUse", "ResourceContention", "ScalingActivityInProgress",
		"ConcurrentModification", "ConcurrentModificationException", "ConcurrentTagAccess", "EntityTemporarilyUnmodifiable", "OperationAborted",
		"ConflictException":
		return fault.Conflict, ""
	case "AWS.SimpleQueueService.QueueDeletedRecently", "QueueDeletedRecently", "ServiceLinkedRoleFailure",
		"InvalidInstanceProfile.Unusable":
		return fault.NotYet, ""
	case "InsufficientInstanceCapacity", "InsufficientCapacity", "InsufficientHostCapacity", "InsufficientAddressCapacity",
		"InsufficientVolumeCapacity", "InsufficientReservedInstanceCapacity", "MaxSpotInstanceCountExceeded", "SpotMaxPriceTooLow":
		return fault.Quota, "AWS has no capacity for this at the moment; choose another zone or machine type, or try again later"
	case "InsufficientFreeAddressesInSubnet":
		return fault.Quota, "free addresses in the subnet, or use a larger subnet"
	case "TagLimitExceeded", "TooManyTags":
		return fault.Quota, remedyTags
	case "UnsupportedHostConfiguration", "UnsupportedHibernationConfiguration", "InvalidInstanceType":
		return fault.Permanent, remedyType
	case "UnknownVolumeType", "VolumeTypeNotAvailableInZone":
		return fault.Permanent, remedyVolume
	case "AvailabilityZoneNotSupported", "NotAvailableInZone":
		return fault.Permanent, "choose subnets in other zones"
	}
	return "", ""
}

// isUserReference reports whether a code means that something that users name in a spec does not exist:
// waiting does not create it.
func isUserReference(code string) bool {
	return slices.Contains([]string{"InvalidAMIID.NotFound", "InvalidAMIID.Unavailable", "InvalidKeyPair.NotFound",
		"InvalidPrefixListID.NotFound", "InvalidPrefixListId.NotFound", "InvalidTransitGatewayID.NotFound",
		"InvalidVpcPeeringConnectionID.NotFound", "AllocationIdNotFound", "CertificateNotFound", "SSLPolicyNotFound", "NoSuchHostedZone"}, code)
}

// isNotFound reports whether a code means that something does not exist.
func isNotFound(code string) bool {
	switch code {
	case "NoSuchEntity", "ParameterNotFound", "NoSuchHostedZone", "NoSuchBucket", "NoSuchKey", "NatGatewayNotFound", "Gateway.NotAttached",
		"QueueDoesNotExist", "AWS.SimpleQueueService.NonExistentQueue", "ResourceNotFoundException", "InvalidRoute.NotFound":
		return true
	}
	return strings.HasSuffix(code, ".NotFound") || strings.HasSuffix(code, "NotFound") ||
		strings.HasSuffix(code, ".NotFoundException") || strings.HasSuffix(code, "NotFoundException") ||
		strings.HasSuffix(code, ".Unknown")
}

// classify returns the class and the remedy of a service's error.
func classify(op operation, code, message string, status int) (fault.Class, string) {
	if c, remedy := exactClass(code); c != "" {
		return c, remedy
	}
	switch {
	case code == "UnauthorizedOperation", code == "Client.UnauthorizedOperation", code == "NotAuthorized",
		strings.HasPrefix(code, "AccessDenied"), code == "AuthorizationError", code == "UnauthorizedAccess":
		return fault.Denied, "give the caller the permission " + op.action()
	case isUserReference(code):
		return fault.Gone, remedyGone
	case isNotFound(code):
		// AWS' servers do not all know a new object immediately.
		if op.isRead() || op.isDelete() {
			return fault.Gone, ""
		}
		return fault.NotYet, remedyGone
	case strings.HasSuffix(code, ".InUse"):
		return fault.Conflict, ""
	case isProfileUnknown(code, message):
		return fault.NotYet, ""
	case isLimitExceeded(code):
		return fault.Quota, quotaRemedy(code)
	case strings.HasSuffix(code, ".Duplicate"), strings.HasSuffix(code, "AlreadyExists"), strings.HasSuffix(code, "AlreadyExistsException"),
		strings.HasPrefix(code, "Duplicate"), code == "QueueNameExists":
		return fault.Taken, remedyName
	case code == "Resource.AlreadyAssociated":
		return fault.Permanent, remedyName
	case code == "Unsupported", code == "UnsupportedOperation", code == "InvalidParameterCombination":
		return fault.Permanent, op.remedy()
	case status >= 500:
		return fault.Lost, ""
	}
	return fault.Permanent, ""
}

// remedy returns the remedy for something that AWS does not offer, or not in combination: the code
// does not say what, but for most operations there is only one possibility.
func (o operation) remedy() string {
	switch o.name {
	case "CreateVolume", "ModifyVolume":
		return remedyVolume
	case "CreateAutoScalingGroup", "UpdateAutoScalingGroup", "CreateLaunchTemplate", "CreateLaunchTemplateVersion":
		return remedyType
	}
	return ""
}

// isProfileUnknown reports whether a new instance profile or role has not reached all servers yet.
// The codes are the same as for any invalid value; only the message differs.
func isProfileUnknown(code, message string) bool {
	switch code {
	case "InvalidParameterValue", "ValidationError":
		return strings.Contains(message, "IAM Instance Profile") || strings.Contains(message, "iamInstanceProfile")
	case "MalformedPolicyDocument":
		return strings.Contains(message, "Invalid principal")
	}
	return false
}

func isLimitExceeded(code string) bool {
	return strings.HasSuffix(code, "LimitExceeded") || strings.HasSuffix(code, "LimitsExceeded") || strings.HasSuffix(code, "LimitExceededException") ||
		strings.HasSuffix(code, "Limit") || strings.HasPrefix(code, "TooMany") || strings.Contains(code, "QuotaExceeded") ||
		strings.HasSuffix(code, "LimitExceededFault") || code == "LimitExceeded" || code == "OverLimit"
}

// quotaRemedy names the limit as in the console of Service Quotas.
func quotaRemedy(code string) string {
	name, ok := map[string]string{
		"VpcLimitExceeded":                        "Amazon VPC: VPCs per Region",
		"SubnetLimitExceeded":                     "Amazon VPC: Subnets per VPC",
		"InternetGatewayLimitExceeded":            "Amazon VPC: Internet gateways per Region",
		"NatGatewayLimitExceeded":                 "Amazon VPC: NAT gateways per Availability Zone",
		"RouteTableLimitExceeded":                 "Amazon VPC: Route tables per VPC",
		"RouteLimitExceeded":                      "Amazon VPC: Routes per route table",
		"SecurityGroupLimitExceeded":              "Amazon VPC: VPC security groups per Region",
		"RulesPerSecurityGroupLimitExceeded":      "Amazon VPC: Inbound or outbound rules per security group",
		"SecurityGroupsPerInterfaceLimitExceeded": "Amazon VPC: Security groups per network interface",
		"AddressLimitExceeded":                    "Amazon EC2: EC2-VPC Elastic IPs",
		"VcpuLimitExceeded":                       "Amazon EC2: Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances",
		"InstanceLimitExceeded":                   "Amazon EC2: Running On-Demand instances",
		"VolumeLimitExceeded":                     "Amazon EBS: Storage for volumes",
		"MaxIOPSLimitExceeded":                    "Amazon EBS: IOPS for provisioned volumes",
		"TooManyLoadBalancers":                    "Elastic Load Balancing: Network Load Balancers per Region",
		"TooManyTargetGroups":                     "Elastic Load Balancing: Target Groups per Region",
		"TooManyListeners":                        "Elastic Load Balancing: Listeners per Network Load Balancer",
	}[code]
	if !ok {
		return "request a higher limit in Service Quotas, or delete resources that you no longer need"
	}
	return "request a higher limit in Service Quotas (" + name + "), or delete resources that you no longer need"
}
