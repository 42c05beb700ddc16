// Package storekeys defines how control planes get the keys of an S3 server that is not their
// platform's own: the keys are kept in a place of the platform that only control-plane machines may
// read, and everything else only has the name of that place. On a platform without such a place, which
// gives its machines no identity either, the place is the user data of control planes.
//
// It must not know a platform, nor what is in a bucket.
package storekeys

import (
	"encoding/base64"
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// Variable is the environment variable with the location of the keys. It contains no secret.
const Variable = "S3_KEYS"

// Endpoint, ID and Secret are the variables with the URL of such a server, and its keys.
const (
	Endpoint = "S3_ENDPOINT"
	ID       = "S3_ACCESS_KEY_ID"
	Secret   = "S3_SECRET_ACCESS_KEY"
)

// Pair is an access key.
type Pair struct{ ID, Secret string }

// IsZero reports whether there are no keys.
func (p Pair) IsZero() bool { return p.ID == "" || p.Secret == "" }

// Encode returns the text that is stored in the place: base64 of ID:SECRET, which a shell can
// extract from any response that contains it.
func (p Pair) Encode() string {
	return base64.StdEncoding.EncodeToString([]byte(p.ID + ":" + p.Secret))
}

// Parse reads the text that Encode returns.
func Parse(text string) (Pair, error) {
	raw, err := base64.StdEncoding.DecodeString(strings.TrimSpace(text))
	if err != nil {
		return Pair{}, errors.New("the keys are not in base64")
	}
	id, secret, ok := strings.Cut(string(raw), ":")
	if p := (Pair{id, secret}); ok && !p.IsZero() {
		return p, nil
	}
	return Pair{}, errors.New("the keys are not ID:SECRET")
}

// UserData is the name of a place that is the user data of control planes, and ScriptVariable is the
// variable of their boot script that has the text that Encode returns. It is not exported.
const (
	UserData       = "user-data"
	ScriptVariable = "STORE_KEYS"
)

var inScript = regexp.MustCompile(`(?m)^` + ScriptVariable + `=([A-Za-z0-9+/=]+)$`)

// FindInScript returns the keys in the user data of a control plane, which may be encoded in base64 as
// a whole.
func FindInScript(text string) (Pair, error) {
	if raw, err := base64.StdEncoding.DecodeString(strings.TrimSpace(text)); err == nil {
		text = string(raw)
	}
	found := inScript.FindStringSubmatch(text)
	if found == nil {
		return Pair{}, errors.New("it has no " + ScriptVariable)
	}
	return Parse(found[1])
}

// Place is the location of keys.
type Place struct {
	// Platform is the name of the place's platform, and Name is the place's name there.
	Platform, Name string
}

// IsZero reports whether no place is set.
func (p Place) IsZero() bool { return p == Place{} }

// String returns the value of Variable: PLATFORM:NAME.
func (p Place) String() string {
	if p.IsZero() {
		return ""
	}
	return p.Platform + ":" + p.Name
}

// ParsePlace reads the value of Variable.
func ParsePlace(s string) (Place, error) {
	platform, name, ok := strings.Cut(s, ":")
	if !ok || platform == "" || name == "" {
		return Place{}, fmt.Errorf("%s is %q, and not PLATFORM:NAME", Variable, s)
	}
	return Place{platform, name}, nil
}

// Needed reports whether reading the store at a URL requires keys of the server at an endpoint,
// which is empty if buckets are the platform's own.
func Needed(endpoint, url string) bool {
	scheme, _, ok := strings.Cut(url, "://")
	switch scheme {
	case "file", "gs", "memfs": // these are not S3 buckets
		return false
	}
	return ok && endpoint != ""
}
