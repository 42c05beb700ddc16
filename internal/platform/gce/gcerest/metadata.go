package gcerest

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"kops.local/kops/internal/engine/fault"
	"kops.local/kops/internal/platform/rest/metadata"
)

// Metadata is the metadata server of an instance (Compute Engine, "About VM metadata"). Its keys are below
// computeMetadata/v1, such as instance/name.
type Metadata struct{ metadata.Service }

// NewMetadata returns the server that the environment names: HOST or HOST:PORT. direct must not use a
// proxy.
func NewMetadata(env func(string) string, direct *http.Client) Metadata {
	return Metadata{metadata.Service{HTTP: direct, Root: "http://" + cmp.Or(env(MetadataVariable), metadata.Host) + "/computeMetadata/v1", Header: "Metadata-Flavor", Value: "Google"}}
}

// Get returns the value of a key, and "" if it is not set. Other errors have class fault.NotYet.
func (m Metadata) Get(ctx context.Context, key string) (string, error) {
	text, err := m.Service.Get(ctx, key)
	if fault.Is(err, fault.Permanent) {
		err = fault.Wrap(fault.Permanent, err, "the variable "+MetadataVariable+" holds HOST or HOST:PORT")
	}
	return text, err
}

// Machine identifies an instance.
type Machine struct{ Project, Zone, Name string }

// Machine identifies the instance on which this runs; errors have class fault.NotYet.
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
			return Machine{}, fault.New(fault.NotYet, "the metadata server has no %s", f.key)
		}
		*f.to = BaseName(text) // a zone is projects/NUMBER/zones/ZONE
	}
	return out, nil
}

// BaseName returns the last part of a URL or a path, which is the object's name.
func BaseName(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }

// early is how long before its expiry a token is no longer used: by then, the metadata server
// returns a new one.
const early = time.Minute

// Tokens caches the token of the machine's service account until shortly before it expires.
type Tokens struct {
	Metadata Metadata
	Now      func() time.Time

	mu    sync.Mutex
	token string
	until time.Time
}

// Token returns a token for Google's APIs; errors have class fault.NotYet.
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
		return "", fault.Wrap(fault.NotYet, fmt.Errorf("the machine has no service account"), "give one to the machines of its group: spec.cloudConfig.gceServiceAccount")
	}
	var answer struct {
		Token   string `json:"access_token"`
		Seconds int    `json:"expires_in"`
	}
	if err := json.Unmarshal([]byte(text), &answer); err != nil || answer.Token == "" {
		return "", fault.New(fault.NotYet, "cannot parse the metadata server's response for %s", key) // the response is secret
	}
	t.token, t.until = answer.Token, t.Now().Add(time.Duration(answer.Seconds)*time.Second-early)
	return t.token, nil
}

// Forget makes the next call request a new token: the machine may have another service account now.
func (t *Tokens) Forget() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.token = ""
}
