package kinds

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/api/iam/v1"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/engine/resource"
	"kops.local/kops/internal/platform/gce/gceapi"
	"kops.local/kops/internal/platform/gce/gcename"
)

// ServiceAccount is the account that machines use.
type ServiceAccount struct {
	AccountID   string `res:"forbid" tf:"account_id"` // 6 to 30 characters
	Project     string `res:"forbid" tf:"project"`
	Description string `tf:"description"`
	DisplayName string `tf:"display_name"`

	// Email is ACCOUNT@PROJECT.iam.gserviceaccount.com.
	Email string `res:"out,id" out:"email"`
}

// ServiceAccounts is the kind of ServiceAccount. A shared one is adopted by its email.
var ServiceAccounts = resource.Kind[ServiceAccount, *Client]{
	Name:   "google_service_account",
	API:    apiIAM,
	Tasks:  []string{"ServiceAccount"},
	Early:  true,
	Key:    func(a *ServiceAccount) string { return a.AccountID },
	List:   listAccounts,
	Create: createAccount,
	Ready: func(ctx context.Context, c *Client, a *ServiceAccount) error { // it takes seconds until the account is visible everywhere
		_, err := gceapi.Result(c.IAM.Projects.ServiceAccounts.Get(accountName(a.Email)).Context(ctx).Do())
		if fault.Is(err, fault.Gone) {
			return fault.Wrap(fault.NotYet, err, "")
		}
		return err
	},
	Update: []resource.Setter[ServiceAccount, *Client]{{Fields: []string{"Description", "DisplayName"}, Set: func(ctx context.Context, c *Client, have, want *ServiceAccount) error {
		_, err := gceapi.Result(c.IAM.Projects.ServiceAccounts.Patch(accountName(have.Email), &iam.PatchServiceAccountRequest{UpdateMask: "description,displayName",
			ServiceAccount: &iam.ServiceAccount{Description: want.Description, DisplayName: want.DisplayName, ForceSendFields: []string{"Description", "DisplayName"}}}).Context(ctx).Do())
		return err
	}}},
	Delete: func(ctx context.Context, c *Client, a *ServiceAccount) error {
		_, err := gceapi.Result(c.IAM.Projects.ServiceAccounts.Delete(accountName(a.Email)).Context(ctx).Do())
		return fault.IgnoreGone(err)
	},
}

// accountName returns an account's name in IAM, for any project.
func accountName(email string) string { return "projects/-/serviceAccounts/" + email }

// accountIDs returns the IDs of the accounts that kops creates for a cluster.
func accountIDs(cluster string) []string {
	out := []string{gcename.ControlPlane, gcename.Node, gcename.Bastion}
	for i, machines := range out {
		out[i] = gcename.Account(machines, cluster)
	}
	return out
}

// accountsPerPage is the maximum number of accounts in one response (IAM,
// projects.serviceAccounts.list).
const accountsPerPage = 100

// listAccounts finds the accounts of a cluster by their IDs. If the caller may not list accounts,
// and wants none, the result is empty.
func listAccounts(ctx context.Context, c *Client, s resource.Scope) ([]*ServiceAccount, error) {
	list, err := listAll(ctx, c, "service accounts", func(ctx context.Context, add func(...*iam.ServiceAccount)) error {
		return c.IAM.Projects.ServiceAccounts.List("projects/"+c.Project).PageSize(accountsPerPage).Pages(ctx, func(p *iam.ListServiceAccountsResponse) error {
			add(p.Accounts...)
			return nil
		})
	})
	if len(s.Names) == 0 && fault.Is(err, fault.Denied) {
		list, err = nil, nil
	}
	ids := append(accountIDs(s.Cluster), s.Names...)
	out, err := selectObjects(list, err, func(d *iam.ServiceAccount) bool {
		return slices.Contains(ids, accountID(d)) || slices.Contains(s.Adopted, d.Email)
	}, accountOf)
	if err != nil {
		return nil, err
	}
	for _, email := range s.Adopted { // accounts of another project, or named by an alias that only their use can verify
		if !slices.ContainsFunc(out, func(a *ServiceAccount) bool { return a.Email == email }) {
			out = append(out, &ServiceAccount{AccountID: email, Email: email})
		}
	}
	return out, nil
}

func accountID(d *iam.ServiceAccount) string {
	id, _, _ := strings.Cut(d.Email, "@")
	return id
}

func accountOf(d *iam.ServiceAccount) *ServiceAccount {
	return &ServiceAccount{AccountID: accountID(d), Project: d.ProjectId, Description: d.Description, DisplayName: d.DisplayName, Email: d.Email}
}

// createAccount adopts an existing account of that name if its description and display name match:
// an earlier response was lost, and the list does not contain the account yet.
func createAccount(ctx context.Context, c *Client, a *ServiceAccount) error {
	a.Email = gcename.AccountEmail(a.AccountID, a.Project)
	_, err := gceapi.Result(c.IAM.Projects.ServiceAccounts.Create("projects/"+a.Project, &iam.CreateServiceAccountRequest{AccountId: a.AccountID,
		ServiceAccount: &iam.ServiceAccount{Description: a.Description, DisplayName: a.DisplayName}}).Context(ctx).Do())
	if !isAlreadyExists(err) {
		return err
	}
	is, lookErr := gceapi.Result(c.IAM.Projects.ServiceAccounts.Get(accountName(a.Email)).Context(ctx).Do())
	if lookErr != nil {
		return fmt.Errorf("%w; read it: %w", err, lookErr)
	}
	if is.Description != a.Description || is.DisplayName != a.DisplayName {
		return err
	}
	return nil
}
