// Package gceapi reaches Google's services with its SDK: it makes the clients, waits for operations
// and says of what class an error is.
//
// It must not know what is asked of the services.
package gceapi

import (
	"google.golang.org/api/cloudresourcemanager/v1"
	"google.golang.org/api/compute/v1"
	"google.golang.org/api/dns/v1"
	"google.golang.org/api/iam/v1"
	"google.golang.org/api/storage/v1"
)

// Clients are those of the services, and what all calls have in common.
type Clients struct {
	Compute  *compute.Service
	IAM      *iam.Service
	Projects *cloudresourcemanager.Service
	DNS      *dns.Service
	Storage  *storage.Service
	// Project is the cluster's, and Region where it is.
	Project, Region string
}
