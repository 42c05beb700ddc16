package encryption

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Add returns the configuration with a new key with the given name, second in each provider that
// writes and has keys of its own: API servers read with it, and do not write with it yet. It is an
// error if no provider that writes has any keys.
func (c *Config) Add(name string, random io.Reader) (*Config, error) {
	raw := make([]byte, 32)
	if _, err := io.ReadFull(random, raw); err != nil {
		return nil, fmt.Errorf("read random bytes for the key %s: %w", name, err)
	}
	added := Key{Name: name, Secret: base64.StdEncoding.EncodeToString(raw)}
	return c.change(func(keys []Key) []Key {
		if position(keys, name) >= 0 {
			return keys
		}
		return slices.Insert(slices.Clone(keys), 1, added)
	})
}

// Promote returns the configuration in which the key with the given name writes.
func (c *Config) Promote(name string) (*Config, error) {
	return c.change(func(keys []Key) []Key {
		i := position(keys, name)
		if i <= 0 {
			return keys
		}
		return slices.Concat([]Key{keys[i]}, keys[:i], keys[i+1:])
	})
}

// Only returns the configuration in which the key with the given name is the only one where it
// writes. Other keys are removed from its provider and from those after it; identity and kms stay.
func (c *Config) Only(name string) (*Config, error) {
	out, err := c.change(func(keys []Key) []Key {
		if i := position(keys, name); i >= 0 {
			return []Key{keys[i]}
		}
		return keys
	})
	if err != nil {
		return nil, err
	}
	for i, r := range out.Resources {
		if _, keys := r.Providers[0].ownKeys(); keys != nil && position(keys.Keys, name) == 0 {
			later := slices.DeleteFunc(slices.Clone(r.Providers[1:]), func(p Provider) bool { _, keys := p.ownKeys(); return keys != nil })
			out.Resources[i].Providers = slices.Concat(r.Providers[:1], later)
		}
	}
	return out, nil
}

// Encrypted returns the resources that the keys of the writing providers encrypt, as named in the
// configuration.
func (c *Config) Encrypted() []string {
	var out []string
	for _, r := range c.Resources {
		if _, keys := r.Providers[0].ownKeys(); keys != nil {
			out = append(out, r.Resources...)
		}
	}
	return out
}

// Reads reports whether c can read everything that was written with another configuration.
func (c *Config) Reads(was *Config) bool {
	for _, r := range was.Resources {
		name, keys := r.Providers[0].ownKeys()
		for _, resource := range r.Resources {
			if keys != nil && !c.hasKey(resource, name, keys.Keys[0]) {
				return false
			}
		}
	}
	return true
}

// hasKey reports whether a provider of a resource has a key.
func (c *Config) hasKey(resource, provider string, key Key) bool {
	for _, r := range c.Resources {
		if !slices.ContainsFunc(r.Resources, func(s string) bool { return s == resource || strings.HasPrefix(s, "*.") }) {
			continue
		}
		for _, p := range r.Providers {
			if name, keys := p.ownKeys(); name == provider && slices.Contains(keys.Keys, key) {
				return true
			}
		}
	}
	return false
}

// change returns a copy in which the keys of each provider that writes are replaced with the result
// of f.
func (c *Config) change(f func([]Key) []Key) (*Config, error) {
	out := *c
	out.Resources = slices.Clone(c.Resources)
	found := false
	for i, r := range out.Resources {
		first := r.Providers[0]
		name, keys := first.ownKeys()
		if keys == nil {
			continue
		}
		found = true
		if err := first.give(name, &Keys{Keys: f(keys.Keys)}); err != nil {
			return nil, err
		}
		out.Resources[i].Providers = slices.Concat([]Provider{first}, r.Providers[1:])
	}
	if !found {
		return nil, errors.New("there is no key to rotate: the provider identity does not encrypt, and keys of a kms provider are rotated in the KMS")
	}
	return &out, nil
}

func position(keys []Key, name string) int {
	return slices.IndexFunc(keys, func(k Key) bool { return k.Name == name })
}
