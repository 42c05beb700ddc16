package web

import (
	"context"
	"sync"
	"time"
)

// Token is an OAuth 2 access token.
type Token struct {
	Access  string
	Expires time.Time
}

// TokenSource returns a token. Errors have class fault.Denied if there is none.
type TokenSource func(context.Context) (Token, error)

// CachedToken returns a source that gets a token when it is first needed, and a new one so long before
// it expires.
func CachedToken(from TokenSource, early time.Duration) TokenSource {
	var mu sync.Mutex
	var cached Token
	return func(ctx context.Context) (Token, error) {
		mu.Lock()
		defer mu.Unlock()
		if time.Until(cached.Expires) > early {
			return cached, nil
		}
		t, err := from(ctx)
		if err == nil {
			cached = t
		}
		return t, err
	}
}
