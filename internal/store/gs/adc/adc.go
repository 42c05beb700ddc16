// Package adc finds application default credentials, as Google's own programs do: the file that
// GOOGLE_APPLICATION_CREDENTIALS names, the login of gcloud, and last the account of the machine. A
// file contains a key, a login, a federated identity or the right to impersonate another account.
//
// It must not know what they are for. It links golang.org/x/oauth2/google, 0.4 MB, which
// programs that every machine downloads do without.
package adc

import (
	"context"
	"fmt"
	"net/http"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/google"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/store/gs/token"
)

// scope covers everything that the account may do.
const scope = "https://www.googleapis.com/auth/cloud-platform"

// Source looks for credentials whenever a token is needed, so that a new login takes
// effect. client sends the requests to token services. Errors have class fault.Denied.
func Source(client *http.Client) token.Source {
	return func(ctx context.Context) (token.Token, error) {
		t, err := find(context.WithValue(ctx, oauth2.HTTPClient, client))
		switch {
		case err == nil:
			return token.Token{Access: t.AccessToken, Expires: t.Expiry}, nil
		case ctx.Err() != nil:
			return token.Token{}, ctx.Err()
		}
		// The cause's class is hidden, because an answer of the token service says nothing
		// about the bucket.
		return token.Token{}, fault.Wrap(fault.Denied, fmt.Errorf("find Google credentials: %v", err), //nolint:errorlint // see above
			"log in (gcloud auth application-default login), or set GOOGLE_APPLICATION_CREDENTIALS to a key file")
	}
}

func find(ctx context.Context) (*oauth2.Token, error) {
	found, err := google.FindDefaultCredentials(ctx, scope)
	if err != nil {
		return nil, err
	}
	return found.TokenSource.Token()
}
