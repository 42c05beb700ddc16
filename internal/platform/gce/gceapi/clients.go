// Package gceapi accesses Google's services with its SDK: it creates the clients, sends each
// request once, waits for operations, and gives every error a class of package fault.
//
// It must not know what the requests are for: neither resources nor clusters.
package gceapi

import (
	"context"
	"time"

	"google.golang.org/api/cloudresourcemanager/v1"
	"google.golang.org/api/compute/v1"
	"google.golang.org/api/dns/v1"
	"google.golang.org/api/iam/v1"
	"google.golang.org/api/storage/v1"
)

// Clients are the clients of the services, with what all calls have in common.
type Clients struct {
	Compute  *compute.Service
	IAM      *iam.Service
	Projects *cloudresourcemanager.Service
	DNS      *dns.Service
	Storage  *storage.Service
	// Project and Region are the cluster's.
	Project, Region string

	sleep func(context.Context, time.Duration) error
}
