// Package oschain logs in to OpenStack as its own programs do: with a password, a token or
// an application credential from the environment, or with the credentials file that kOps
// reads.
//
// It must not know what the login is for, nor read the environment itself. It links
// gophercloud, 0.5 MB, which programs that every machine downloads do without.
package oschain

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/store/swift"
)

// Login returns a login function. env returns an environment variable, or "", as
// os.Getenv does; client sends the requests. Errors have class fault.Denied.
func Login(env func(string) string, client *http.Client) func(context.Context) (swift.Session, error) {
	return func(ctx context.Context) (swift.Session, error) {
		s, err := login(ctx, env, client)
		if err != nil && ctx.Err() == nil {
			// The cause's class is hidden, because an answer of the identity service says
			// nothing about the container.
			err = fault.Wrap(fault.Denied, fmt.Errorf("log in to OpenStack: %v", err), //nolint:errorlint // see above
				"set OS_AUTH_URL, OS_USERNAME, OS_PASSWORD, OS_PROJECT_NAME and the names of the domains, as the file openrc of the project does, or OS_APPLICATION_CREDENTIAL_ID and OS_APPLICATION_CREDENTIAL_SECRET")
		}
		return s, err
	}
}

func login(ctx context.Context, env func(string) string, client *http.Client) (swift.Session, error) {
	options, region, err := Options(env)
	if err != nil {
		return swift.Session{}, err
	}
	provider, err := openstack.NewClient(options.IdentityEndpoint)
	if err != nil {
		return swift.Session{}, err
	}
	provider.HTTPClient = *client
	if err := openstack.Authenticate(ctx, provider, options); err != nil {
		return swift.Session{}, err
	}
	storage, err := openstack.NewObjectStorageV1(provider, gophercloud.EndpointOpts{Region: region})
	if err != nil {
		return swift.Session{}, fmt.Errorf("find the object storage of the region %q: %w", region, err)
	}
	return swift.Session{Endpoint: storage.ResourceBaseURL(), Token: provider.Token()}, nil
}

// Options returns how to log in, and the region: from OS_AUTH_URL and related
// variables, or else from the section Default, Global or Swift of the file that
// OPENSTACK_CREDENTIAL_FILE names, or of ~/.openstack/config.
func Options(env func(string) string) (o gophercloud.AuthOptions, region string, err error) {
	if env("OS_AUTH_URL") == "" {
		path := cmp.Or(env("OPENSTACK_CREDENTIAL_FILE"), filepath.Join(env("HOME"), ".openstack", "config"))
		text, err := os.ReadFile(path)
		if err != nil {
			return o, "", errors.New("OS_AUTH_URL is not set, and " + path + " cannot be read")
		}
		env = variables(string(text))
	}
	o = gophercloud.AuthOptions{
		IdentityEndpoint: env("OS_AUTH_URL"), UserID: env("OS_USER_ID"), Username: env("OS_USERNAME"), Password: env("OS_PASSWORD"),
		DomainID:   cmp.Or(env("OS_USER_DOMAIN_ID"), env("OS_DOMAIN_ID")),
		DomainName: cmp.Or(env("OS_USER_DOMAIN_NAME"), env("OS_DOMAIN_NAME")),
		TenantID:   cmp.Or(env("OS_PROJECT_ID"), env("OS_TENANT_ID")), TenantName: cmp.Or(env("OS_PROJECT_NAME"), env("OS_TENANT_NAME")),
		TokenID:                     env("OS_TOKEN"),
		ApplicationCredentialID:     env("OS_APPLICATION_CREDENTIAL_ID"),
		ApplicationCredentialName:   env("OS_APPLICATION_CREDENTIAL_NAME"),
		ApplicationCredentialSecret: env("OS_APPLICATION_CREDENTIAL_SECRET"),
	}
	if o.IdentityEndpoint == "" {
		return o, "", errors.New("there is no auth URL")
	}
	if o.ApplicationCredentialID != "" || o.ApplicationCredentialName != "" {
		o.TenantID, o.TenantName = "", "" // the credential belongs to one project
	} else if o.TenantID == "" && o.TenantName != "" {
		o.Scope = &gophercloud.AuthScope{ProjectName: o.TenantName, DomainID: env("OS_PROJECT_DOMAIN_ID"), DomainName: env("OS_PROJECT_DOMAIN_NAME")}
		if o.Scope.DomainID == "" && o.Scope.DomainName == "" {
			o.Scope.DomainID, o.Scope.DomainName = o.DomainID, o.DomainName
		}
		if o.Scope.DomainID != "" {
			o.Scope.DomainName = ""
		}
	}
	if o.UserID != "" || o.DomainID != "" {
		o.DomainName = ""
	}
	if o.UserID != "" {
		o.DomainID, o.Username = "", ""
	}
	return o, env("OS_REGION_NAME"), nil
}

// variables returns the values of a credentials file by environment variable. Its keys
// are the variables' names in lower case, such as tenant_id, except identity, which is
// OS_AUTH_URL, user and region.
func variables(text string) func(string) string {
	found, section := map[string]string{}, ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if name, ok := strings.CutPrefix(line, "["); ok {
			section = strings.ToLower(strings.TrimSuffix(name, "]"))
			continue
		}
		key, value, ok := strings.Cut(line, "=")
		if !ok || strings.HasPrefix(line, "#") || strings.HasPrefix(line, ";") || section != "" && section != "default" && section != "global" && section != "swift" {
			continue
		}
		name := strings.ToUpper(strings.ReplaceAll(strings.TrimSpace(key), "-", "_"))
		switch name {
		case "IDENTITY":
			name = "AUTH_URL"
		case "USER":
			name = "USERNAME"
		case "REGION":
			name = "REGION_NAME"
		}
		found[name] = strings.Trim(strings.TrimSpace(value), `"`)
	}
	return func(variable string) string { return found[strings.TrimPrefix(variable, "OS_")] }
}

// Client returns client, or one that trusts any server if KOPS_OS_TLS_INSECURE_SKIP_VERIFY
// is set accordingly.
func Client(env func(string) string, client *http.Client) *http.Client {
	if v := env("KOPS_OS_TLS_INSECURE_SKIP_VERIFY"); v != "1" && v != "true" {
		return client
	}
	t := http.DefaultTransport.(*http.Transport).Clone()      //nolint:errcheck // net/http documents the type
	t.TLSClientConfig = &tls.Config{InsecureSkipVerify: true} //nolint:gosec // the user has requested it
	return &http.Client{Transport: t, CheckRedirect: client.CheckRedirect}
}
