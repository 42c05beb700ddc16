// Package oschain logs in to OpenStack as its own programs do: with a password, a token or
// an application credential from the environment, or with the credentials file that kOps
// reads. It uses the identity API directly (Identity API v3, "Authentication and token management").
//
// It must not know what the login is for, nor read the environment itself.
package oschain

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/store/swift"
	"kops.local/kops/internal/store/web"
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
	if env("OS_AUTH_URL") == "" {
		path := cmp.Or(env("OPENSTACK_CREDENTIAL_FILE"), filepath.Join(env("HOME"), ".openstack", "config"))
		text, err := os.ReadFile(path)
		if err != nil {
			return swift.Session{}, errors.New("OS_AUTH_URL is not set, and " + path + " cannot be read")
		}
		env = Variables(string(text))
	}
	at := strings.TrimSuffix(env("OS_AUTH_URL"), "/")
	if at == "" {
		return swift.Session{}, errors.New("there is no auth URL")
	}
	if at = strings.TrimSuffix(at, "/v2.0"); !strings.HasSuffix(at, "/v3") {
		at += "/v3"
	}
	body, err := json.Marshal(map[string]any{"auth": authentication(env)})
	if err != nil {
		return swift.Session{}, err
	}
	a, err := web.Do(ctx, client, func() (*http.Request, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, at+"/auth/tokens", bytes.NewReader(body))
		if err == nil {
			req.Header.Set("Content-Type", "application/json")
		}
		return req, err
	}, nil)
	switch {
	case err != nil:
		return swift.Session{}, err
	case !a.OK():
		return swift.Session{}, fmt.Errorf("%s answers %d", at, a.Status)
	}
	storage, err := endpoint(a.Body, env("OS_REGION_NAME"))
	if err != nil {
		return swift.Session{}, err
	}
	return swift.Session{Endpoint: storage, Token: a.Header.Get("X-Subject-Token")}, nil
}

// object is an object of the API.
type object = map[string]any

// authentication returns the request for a token.
func authentication(env func(string) string) object {
	id, name := env("OS_APPLICATION_CREDENTIAL_ID"), env("OS_APPLICATION_CREDENTIAL_NAME")
	switch {
	case id != "" || name != "": // it belongs to one project
		credential := object{"secret": env("OS_APPLICATION_CREDENTIAL_SECRET")}
		if id != "" {
			credential["id"] = id
		} else {
			credential["name"], credential["user"] = name, user(env)
		}
		return object{"identity": object{"methods": []string{"application_credential"}, "application_credential": credential}}
	case env("OS_TOKEN") != "":
		return scoped(env, object{"methods": []string{"token"}, "token": object{"id": env("OS_TOKEN")}})
	}
	u := user(env)
	u["password"] = env("OS_PASSWORD")
	return scoped(env, object{"methods": []string{"password"}, "password": object{"user": u}})
}

// user returns the user, without a password.
func user(env func(string) string) object {
	if id := env("OS_USER_ID"); id != "" {
		return object{"id": id}
	}
	return object{"name": env("OS_USERNAME"), "domain": domain(userDomain(env))}
}

func userDomain(env func(string) string) (id, name string) {
	return cmp.Or(env("OS_USER_DOMAIN_ID"), env("OS_DOMAIN_ID")), cmp.Or(env("OS_USER_DOMAIN_NAME"), env("OS_DOMAIN_NAME"))
}

// domain returns a domain by its ID, or else its name.
func domain(id, name string) object {
	if id != "" {
		return object{"id": id}
	}
	return object{"name": name}
}

// scoped adds the project to a request. A project's name is unique in its domain, which is the user's
// unless it is given.
func scoped(env func(string) string, identity object) object {
	out := object{"identity": identity}
	id, name := cmp.Or(env("OS_PROJECT_ID"), env("OS_TENANT_ID")), cmp.Or(env("OS_PROJECT_NAME"), env("OS_TENANT_NAME"))
	switch {
	case id != "":
		out["scope"] = object{"project": object{"id": id}}
	case name != "":
		domainID, domainName := env("OS_PROJECT_DOMAIN_ID"), env("OS_PROJECT_DOMAIN_NAME")
		if domainID == "" && domainName == "" {
			domainID, domainName = userDomain(env)
		}
		out["scope"] = object{"project": object{"name": name, "domain": domain(domainID, domainName)}}
	}
	return out
}

// endpoint returns the public URL of the object storage in a region, or in the first one if region is "".
func endpoint(answer []byte, region string) (string, error) {
	var a struct {
		Token struct {
			Catalog []struct {
				Type      string `json:"type"`
				Endpoints []struct {
					Interface string `json:"interface"`
					Region    string `json:"region"`
					RegionID  string `json:"region_id"`
					URL       string `json:"url"`
				} `json:"endpoints"`
			} `json:"catalog"`
		} `json:"token"`
	}
	if err := json.Unmarshal(answer, &a); err != nil {
		return "", fmt.Errorf("read the catalog of services: %w", err)
	}
	for _, s := range a.Token.Catalog {
		for _, e := range s.Endpoints {
			if s.Type == "object-store" && e.Interface == "public" && (region == "" || region == e.Region || region == e.RegionID) {
				return strings.TrimSuffix(e.URL, "/") + "/", nil
			}
		}
	}
	return "", fmt.Errorf("there is no object storage in the region %q", region)
}

// Variables returns the values of a credentials file by environment variable. Its keys
// are the variables' names in lower case, such as tenant_id, except identity, which is
// OS_AUTH_URL, user and region.
func Variables(text string) func(string) string {
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
