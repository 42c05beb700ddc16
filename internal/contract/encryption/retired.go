package encryption

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// digestSize is the length of the part of a key's SHA-256 that identifies it, in bytes.
const digestSize = 8

// KeyID identifies a key, or a KMS plugin, without containing the key.
type KeyID struct {
	// Provider is aesgcm, aescbc, secretbox or kms.
	Provider string `json:"provider"`
	Name     string `json:"name"`
	// Digest distinguishes keys with the same name; a plugin has none.
	Digest string `json:"digest,omitempty"`
}

func (k KeyID) String() string {
	if k.Provider == "kms" {
		return "KMS plugin " + k.Name
	}
	return fmt.Sprintf("key %s of %s", k.Name, k.Provider)
}

// id returns the identity of a key of a provider.
func (k Key) id(provider string) KeyID {
	raw, _ := base64.StdEncoding.DecodeString(k.Secret) // Parse has checked it
	sum := sha256.Sum256(slices.Concat([]byte(provider), []byte{0}, raw))
	return KeyID{provider, k.Name, hex.EncodeToString(sum[:digestSize])}
}

// Keys lists the keys and plugins with which API servers read, in the order of the configuration.
func (c *Config) Keys() []KeyID {
	out := []KeyID{}
	for _, r := range c.Resources {
		for _, p := range r.Providers {
			var ids []KeyID
			if name, keys := p.ownKeys(); keys != nil {
				for _, k := range keys.Keys {
					ids = append(ids, k.id(name))
				}
			}
			if p.KMS != nil {
				ids = append(ids, KeyID{Provider: "kms", Name: p.KMS.Name})
			}
			for _, id := range ids {
				if !slices.Contains(out, id) {
					out = append(out, id)
				}
			}
		}
	}
	return out
}

// Retired is a key with which API servers no longer read. It is kept because back-ups of etcd
// contain objects that it has encrypted.
type Retired struct {
	Provider string `json:"provider"`
	Key
	// Resources are the resources that the key was configured for.
	Resources []string `json:"resources"`
	// Retired is when the key was removed from the configuration.
	Retired time.Time `json:"retired"`
}

// ID returns the key's identity.
func (r Retired) ID() KeyID { return r.Key.id(r.Provider) }

// RetiredKeys are the retired keys of a cluster.
type RetiredKeys struct {
	Keys []Retired `json:"keys"`
}

// ParseRetired reads retired keys; an empty text has none.
func ParseRetired(text string) (RetiredKeys, error) {
	var l RetiredKeys
	if text == "" {
		return l, nil
	}
	if err := json.Unmarshal([]byte(text), &l); err != nil {
		return l, errors.New("read the retired keys: it is not JSON with the fields of one") // the decoder's error may quote a key
	}
	for i, r := range l.Keys {
		p := Provider{}
		if err := errors.Join(p.give(r.Provider, &Keys{[]Key{r.Key}}), p.check()); err != nil {
			return l, fmt.Errorf("read the retired keys: keys[%d]: %w", i, err)
		}
	}
	return l, nil
}

// Text returns the keys as they are stored.
func (l RetiredKeys) Text() (string, error) {
	text, err := json.MarshalIndent(l, "", "  ")
	if err != nil {
		return "", errors.New("write the retired keys: they cannot be encoded")
	}
	return string(text) + "\n", nil
}

// Find returns the retired key with an identity.
func (l RetiredKeys) Find(id KeyID) (Retired, bool) {
	i := slices.IndexFunc(l.Keys, func(r Retired) bool { return r.ID() == id })
	if i < 0 {
		return Retired{}, false
	}
	return l.Keys[i], true
}

// Retire adds the keys that are in a configuration and not in its successor; now is nil if there is
// no successor. A key that was retired before, and put back, is retired again.
func (l RetiredKeys) Retire(was, now *Config, at time.Time) RetiredKeys {
	var left []KeyID
	if now != nil {
		left = now.Keys()
	}
	out := RetiredKeys{slices.Clone(l.Keys)}
	for _, r := range was.all() {
		id := r.ID()
		if slices.Contains(left, id) {
			continue
		}
		r.Retired = at.UTC()
		out.Keys = append(slices.DeleteFunc(out.Keys, func(o Retired) bool { return o.ID() == id }), r)
	}
	return out
}

// all lists the keys of a configuration as if they were retired.
func (c *Config) all() []Retired {
	var out []Retired
	for _, r := range c.Resources {
		for _, p := range r.Providers {
			name, keys := p.ownKeys()
			if keys == nil {
				continue
			}
			for _, k := range keys.Keys {
				id := k.id(name)
				i := slices.IndexFunc(out, func(o Retired) bool { return o.ID() == id })
				if i < 0 {
					i = len(out)
					out = append(out, Retired{Provider: name, Key: k})
				}
				out[i].Resources = append(slices.Clone(out[i].Resources), r.Resources...)
			}
		}
	}
	return out
}

// AllKeys returns the keys of a configuration, which may be nil, and then the retired ones that are
// not in it.
func AllKeys(c *Config, retired RetiredKeys) []Retired {
	var out []Retired
	if c != nil {
		out = c.all()
	}
	for _, r := range retired.Keys {
		if !slices.ContainsFunc(out, func(o Retired) bool { return o.ID() == r.ID() }) {
			out = append(out, r)
		}
	}
	return out
}

// PutBack returns the configuration with which API servers also read with a retired key. It comes
// last, as a provider of its own: API servers write with the first provider, and if two have keys
// with the same name, they try one after the other.
func (c *Config) PutBack(r Retired) (*Config, error) {
	var p Provider
	if err := p.give(r.Provider, &Keys{[]Key{r.Key}}); err != nil {
		return nil, err
	}
	out := *c
	out.Resources = slices.Clone(c.Resources)
	for _, resource := range r.Resources {
		i := slices.IndexFunc(out.Resources, func(x Resource) bool { return x.covers(resource) })
		switch {
		case i >= 0 && !out.Resources[i].hasKey(r.ID()):
			out.Resources[i].Providers = append(slices.Clone(out.Resources[i].Providers), p)
		case i < 0:
			added := Resource{Resources: []string{resource}, Providers: []Provider{{Identity: &struct{}{}}, p}}
			at := 0 // API servers reject a resource that comes after a wildcard which matches it
			if strings.HasPrefix(resource, "*.") {
				at = len(out.Resources)
			}
			out.Resources = slices.Insert(out.Resources, at, added)
		}
	}
	return &out, nil
}

// covers reports whether the entry determines how a resource is encrypted.
func (r Resource) covers(resource string) bool {
	_, group, _ := strings.Cut(resource, ".")
	return slices.ContainsFunc(r.Resources, func(s string) bool { return s == resource || s == "*.*" || s == "*."+group })
}

// hasKey reports whether the entry's providers have a key.
func (r Resource) hasKey(id KeyID) bool {
	return slices.Contains((&Config{Resources: []Resource{r}}).Keys(), id)
}

// give sets the provider with a name in p, with these keys.
func (p *Provider) give(name string, keys *Keys) error {
	switch name {
	case "aesgcm":
		p.AESGCM = keys
	case "aescbc":
		p.AESCBC = keys
	case "secretbox":
		p.Secretbox = keys
	default:
		return fmt.Errorf("provider: got %q; want aesgcm, aescbc or secretbox", name)
	}
	return nil
}
