// Package imds gets access tokens for Azure's storage from the metadata service of a machine, for the
// machine's managed identity. It links no SDK.
//
// It must not know what they are for, nor read the environment.
package imds

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/store/web"
)

const (
	// Server is the metadata service of machines.
	Server = "http://169.254.169.254"
	// resource is Azure's storage, in all clouds.
	resource = "https://storage.azure.com/"
	// early is how long before its expiry a token is no longer used. The service caches tokens itself.
	early = 5 * time.Minute
)

// Source returns a token of the machine's identity. client bypasses any proxy, and server is a URL, such
// as Server.
func Source(client *http.Client, server string) func(context.Context) (string, error) {
	at := server + "/metadata/identity/oauth2/token?" + url.Values{"api-version": {"2018-02-01"}, "resource": {resource}}.Encode()
	cached := web.CachedToken(func(ctx context.Context) (web.Token, error) { return get(ctx, client, at) }, early)
	return func(ctx context.Context) (string, error) {
		t, err := cached(ctx)
		return t.Access, err
	}
}

// get requests a token (Microsoft Entra, "How to use managed identities for Azure resources on an Azure
// VM to acquire an access token").
func get(ctx context.Context, client *http.Client, at string) (web.Token, error) {
	a, err := web.Do(ctx, client, func() (*http.Request, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
		if err == nil {
			req.Header.Set("Metadata", "true")
		}
		return req, err
	}, nil)
	switch {
	case ctx.Err() != nil:
		return web.Token{}, ctx.Err()
	case err != nil:
		return web.Token{}, deniedError(err)
	case !a.OK():
		return web.Token{}, deniedError(fmt.Errorf("the metadata service answers %d", a.Status))
	}
	var t struct {
		Access  string `json:"access_token"`
		Seconds string `json:"expires_in"`
	}
	err = json.Unmarshal(a.Body, &t)
	seconds, nerr := strconv.Atoi(t.Seconds)
	if err != nil || nerr != nil || t.Access == "" {
		return web.Token{}, deniedError(errors.New("the metadata service's answer is not a token"))
	}
	return web.Token{Access: t.Access, Expires: time.Now().Add(time.Duration(seconds) * time.Second)}, nil
}

// deniedError hides the class of a cause: that the metadata service has no token says nothing about the
// container.
func deniedError(err error) error {
	return fault.Wrap(fault.Denied, fmt.Errorf("the machine has no identity: %v", err), //nolint:errorlint // see above
		"give the machine a managed identity that may read the storage account")
}
