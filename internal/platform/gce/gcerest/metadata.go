package gcerest

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"kops.local/kops/internal/engine/fault"
)

// Metadata is the metadata server of an instance (Compute Engine, "About VM metadata").
type Metadata struct {
	// HTTP must ask no proxy, which would ask as another machine.
	HTTP *http.Client
	// Host is HOST or HOST:PORT; empty: 169.254.169.254.
	Host string
}

// NewMetadata is the server that the environment names.
func NewMetadata(env func(string) string, direct *http.Client) Metadata {
	return Metadata{HTTP: direct, Host: env(MetadataVariable)}
}

const (
	usualHost = "169.254.169.254"
	// patience bounds a question to the metadata server.
	patience = 10 * time.Second
	// longestMetadata is the longest answer of it that is read, in bytes: a value has 256 KiB at most.
	longestMetadata = 1 << 20
)

// Get returns what the server says of a key below computeMetadata/v1, such as
// instance/name, and "" where it says nothing. Other errors are of class fault.NotYet.
func (m Metadata) Get(ctx context.Context, key string) (string, error) {
	text, err := m.get(ctx, key)
	if fault.Is(err, fault.Gone) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("ask the metadata server for %s: %w", key, err)
	}
	return strings.TrimSpace(text), nil
}

func (m Metadata) get(ctx context.Context, key string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+cmp.Or(m.Host, usualHost)+"/computeMetadata/v1/"+key, nil)
	if err != nil {
		return "", fault.Wrap(fault.Permanent, err, "the variable "+MetadataVariable+" holds HOST or HOST:PORT")
	}
	req.Header.Set("Metadata-Flavor", "Google")
	res, err := m.HTTP.Do(req)
	if err != nil {
		return "", fault.Wrap(fault.NotYet, err, "")
	}
	defer res.Body.Close() //nolint:errcheck // it was only read
	text, err := io.ReadAll(io.LimitReader(res.Body, longestMetadata))
	switch {
	case err != nil:
		return "", fault.Wrap(fault.NotYet, err, "")
	case res.StatusCode == http.StatusNotFound:
		return "", fault.New(fault.Gone, "it has no %s", key)
	case res.StatusCode != http.StatusOK:
		return "", fault.New(fault.NotYet, "it answers %s", res.Status)
	}
	return string(text), nil
}

// Machine is an instance.
type Machine struct{ Project, Zone, Name string }

// Machine returns which instance this is, or an error of class fault.NotYet.
func (m Metadata) Machine(ctx context.Context) (Machine, error) {
	var out Machine
	for _, f := range []struct {
		key string
		to  *string
	}{{"project/project-id", &out.Project}, {"instance/zone", &out.Zone}, {"instance/name", &out.Name}} {
		text, err := m.Get(ctx, f.key)
		if err != nil {
			return Machine{}, err
		}
		if text == "" {
			return Machine{}, fault.New(fault.NotYet, "the metadata server says nothing of %s", f.key)
		}
		*f.to = Last(text) // a zone is projects/NUMBER/zones/ZONE
	}
	return out, nil
}

// Last is the last part of a URL or a path: the name of what is there.
func Last(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }

// early is how long before its end a token is not used any more: the metadata server keeps
// another one then.
const early = time.Minute

// Tokens are tokens of the machine's service account, each used until shortly before its end.
type Tokens struct {
	Metadata Metadata
	Now      func() time.Time

	mu    sync.Mutex
	token string
	until time.Time
}

// Token returns a token for Google's APIs, or an error of class fault.NotYet.
func (t *Tokens) Token(ctx context.Context) (string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.token != "" && t.Now().Before(t.until) {
		return t.token, nil
	}
	const key = "instance/service-accounts/default/token"
	text, err := t.Metadata.Get(ctx, key)
	if err != nil {
		return "", err
	}
	if text == "" {
		return "", fault.Wrap(fault.NotYet, fmt.Errorf("the machine has no service account"), "give the machines of its group one: spec.cloudProvider.gce.serviceAccount")
	}
	var answer struct {
		Token   string `json:"access_token"`
		Seconds int    `json:"expires_in"`
	}
	if err := json.Unmarshal([]byte(text), &answer); err != nil || answer.Token == "" {
		return "", fault.New(fault.NotYet, "the metadata server's answer for %s is not understood", key) // which is secret
	}
	t.token, t.until = answer.Token, t.Now().Add(time.Duration(answer.Seconds)*time.Second-early)
	return t.token, nil
}

// Forget makes the next call ask for a new token: the machine may have another service account.
func (t *Tokens) Forget() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.token = ""
}
