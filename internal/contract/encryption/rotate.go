package encryption

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Add returns the configuration with a new key of a name, second in each provider that
// writes and has keys of its own: API servers read by it, and do not write by it yet. It
// is an error when no provider that writes has any.
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

// Promote returns the configuration in which the key of a name writes.
func (c *Config) Promote(name string) (*Config, error) {
	return c.change(func(keys []Key) []Key {
		i := position(keys, name)
		if i <= 0 {
			return keys
		}
		return slices.Concat([]Key{keys[i]}, keys[:i], keys[i+1:])
	})
}

// Only returns the configuration in which the key of a name is the only one where it writes.
// Other keys are removed from its provider and from those that come after; identity and kms stay.
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
		if _, keys := r.Providers[0].own(); keys != nil && position(keys.Keys, name) == 0 {
			later := slices.DeleteFunc(slices.Clone(r.Providers[1:]), func(p Provider) bool { _, keys := p.own(); return keys != nil })
			out.Resources[i].Providers = slices.Concat(r.Providers[:1], later)
		}
	}
	return out, nil
}

// Encrypted is what the keys of the writing providers encrypt, as the configuration names it.
func (c *Config) Encrypted() []string {
	var out []string
	for _, r := range c.Resources {
		if _, keys := r.Providers[0].own(); keys != nil {
			out = append(out, r.Resources...)
		}
	}
	return out
}

// Reads reports whether all that is written by a configuration can be read by c.
func (c *Config) Reads(was *Config) bool {
	for _, r := range was.Resources {
		name, keys := r.Providers[0].own()
		for _, resource := range r.Resources {
			if keys != nil && !c.has(resource, name, keys.Keys[0]) {
				return false
			}
		}
	}
	return true
}

// has reports whether a provider of a resource has a key.
func (c *Config) has(resource, provider string, key Key) bool {
	for _, r := range c.Resources {
		if !slices.ContainsFunc(r.Resources, func(s string) bool { return s == resource || strings.HasPrefix(s, "*.") }) {
			continue
		}
		for _, p := range r.Providers {
			if name, keys := p.own(); name == provider && slices.Contains(keys.Keys, key) {
				return true
			}
		}
	}
	return false
}

// change returns a copy in which the keys of each provider that writes are what f makes of them.
func (c *Config) change(f func([]Key) []Key) (*Config, error) {
	out := *c
	out.Resources = slices.Clone(c.Resources)
	found := false
	for i, r := range out.Resources {
		first := r.Providers[0]
		name, keys := first.own()
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
