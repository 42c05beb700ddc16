// Package encryption handles the configuration with which API servers encrypt what they store
// (apiserver.config.k8s.io/v1, EncryptionConfiguration): it is read, checked, and given another
// key, step by step.
//
// It must not know where the configuration is stored, nor what reads it.
package encryption

import (
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/yaml"
)

const (
	apiVersion = "apiserver.config.k8s.io/v1"
	kind       = "EncryptionConfiguration"
)

// Config is an EncryptionConfiguration. Printing it in any way does not reveal its keys; only Text
// does.
type Config struct {
	APIVersion string     `json:"apiVersion"`
	Kind       string     `json:"kind"`
	Resources  []Resource `json:"resources"`
}

// Resource specifies how some resources are encrypted: the first provider writes, and all of them
// read.
type Resource struct {
	Resources []string   `json:"resources"`
	Providers []Provider `json:"providers"`
}

// Provider has exactly one of its fields set.
type Provider struct {
	AESGCM    *Keys     `json:"aesgcm,omitempty"`
	AESCBC    *Keys     `json:"aescbc,omitempty"`
	Secretbox *Keys     `json:"secretbox,omitempty"`
	Identity  *struct{} `json:"identity,omitempty"`
	KMS       *KMS      `json:"kms,omitempty"`
}

// Keys are the keys of a provider; the first one is used for writing.
type Keys struct {
	Keys []Key `json:"keys"`
}

// Key is a key; Secret is its base64.
type Key struct {
	Name   string `json:"name"`
	Secret string `json:"secret"`
}

// String shows only the name.
func (k Key) String() string { return "key " + k.Name }

// GoString shows only the name.
func (k Key) GoString() string { return k.String() }

// KMS is a plugin that manages its own keys.
type KMS struct {
	APIVersion string `json:"apiVersion,omitempty"`
	Name       string `json:"name"`
	CacheSize  *int32 `json:"cachesize,omitempty"`
	Endpoint   string `json:"endpoint"`
	Timeout    string `json:"timeout,omitempty"`
}

// Parse reads a configuration, YAML or JSON, and checks what the API server would otherwise reject
// at startup.
func Parse(text []byte) (*Config, error) {
	var c Config
	if err := yaml.UnmarshalStrict(text, &c); err != nil {
		return nil, fmt.Errorf("read the EncryptionConfiguration: %w", redacted(err))
	}
	switch {
	case c.APIVersion != apiVersion || c.Kind != kind:
		return nil, fmt.Errorf("apiVersion and kind: got %q and %q; want %s and %s", c.APIVersion, c.Kind, apiVersion, kind)
	case len(c.Resources) == 0:
		return nil, errors.New("resources: the list is empty; list at least secrets")
	}
	var errs []error
	for i, r := range c.Resources {
		if err := r.check(); err != nil {
			errs = append(errs, fmt.Errorf("resources[%d].%w", i, err))
		}
	}
	return &c, errors.Join(errs...)
}

// redacted removes values from the decoder's errors about a text.
func redacted(err error) error {
	text, _, _ := strings.Cut(err.Error(), "\n")
	if strings.Contains(text, "unknown field") || strings.Contains(text, "line ") && !strings.Contains(text, "`") {
		return errors.New(text)
	}
	return errors.New("it is not YAML or JSON with the fields of an EncryptionConfiguration")
}

func (r Resource) check() error {
	if len(r.Resources) == 0 || slices.Contains(r.Resources, "") {
		return errors.New("resources: name each resource, such as secrets")
	}
	if len(r.Providers) == 0 {
		return errors.New("providers: the list is empty; the first provider encrypts")
	}
	for i, p := range r.Providers {
		if err := p.check(); err != nil {
			return fmt.Errorf("providers[%d]%w", i, err)
		}
	}
	return nil
}

func (p Provider) check() error {
	n := 0
	for _, there := range []bool{p.AESGCM != nil, p.AESCBC != nil, p.Secretbox != nil, p.Identity != nil, p.KMS != nil} {
		if there {
			n++
		}
	}
	if n != 1 {
		return fmt.Errorf(": got %d of aesgcm, aescbc, secretbox, kms and identity; want one (identity is written as identity: {})", n)
	}
	if p.KMS != nil {
		return p.KMS.check()
	}
	name, keys := p.ownKeys()
	if keys == nil {
		return nil
	}
	if len(keys.Keys) == 0 {
		return fmt.Errorf(".%s.keys: the list is empty", name)
	}
	seen := map[string]bool{}
	for i, k := range keys.Keys {
		at := fmt.Sprintf(".%s.keys[%d]", name, i)
		raw, err := base64.StdEncoding.DecodeString(k.Secret)
		switch {
		case k.Name == "":
			return fmt.Errorf("%s.name: it is required", at)
		case seen[k.Name]:
			return fmt.Errorf("%s.name: got %q twice", at, k.Name)
		case err != nil:
			return fmt.Errorf("%s.secret: it is not base64; make one with: head -c 32 /dev/urandom | base64", at)
		case !slices.Contains(sizes(name), len(raw)):
			return fmt.Errorf("%s.secret: got a key of %d bytes; want 32", at, len(raw))
		}
		seen[k.Name] = true
	}
	return nil
}

// sizes returns the permitted lengths of a provider's keys, in bytes (Kubernetes, "Encrypting
// Confidential Data at Rest").
func sizes(provider string) []int {
	if provider == "secretbox" {
		return []int{32}
	}
	return []int{16, 24, 32}
}

// ownKeys returns the name of a provider with keys of its own, and the keys; nil for others.
func (p Provider) ownKeys() (string, *Keys) {
	switch {
	case p.AESGCM != nil:
		return "aesgcm", p.AESGCM
	case p.AESCBC != nil:
		return "aescbc", p.AESCBC
	case p.Secretbox != nil:
		return "secretbox", p.Secretbox
	}
	return "", nil
}

func (k KMS) check() error {
	timeout, err := time.ParseDuration(k.Timeout)
	switch {
	case k.APIVersion != "" && k.APIVersion != "v1" && k.APIVersion != "v2":
		return fmt.Errorf(".kms.apiVersion: got %q; want v2", k.APIVersion)
	case k.Name == "":
		return errors.New(".kms.name: it is required")
	case !strings.HasPrefix(k.Endpoint, "unix://"):
		return fmt.Errorf(".kms.endpoint: got %q; want the address of a socket, such as unix:///var/run/kms.sock", k.Endpoint)
	case k.APIVersion == "v2" && k.CacheSize != nil:
		return errors.New(".kms.cachesize: version v2 has none; leave it out")
	case k.Timeout != "" && (err != nil || timeout <= 0):
		return fmt.Errorf(".kms.timeout: got %q; want a time such as 3s", k.Timeout)
	}
	return nil
}

// Text returns the configuration as it is stored.
func (c *Config) Text() (string, error) {
	text, err := yaml.Marshal(c)
	if err != nil {
		return "", errors.New("write the EncryptionConfiguration: it cannot be encoded")
	}
	return string(text), nil
}
