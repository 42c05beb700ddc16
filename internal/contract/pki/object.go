package pki

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kops.local/kops/api"
)

// FromAPI reads a keyset from its API object. If the object names no primary, or one that is
// distrusted or missing, the youngest trusted item that can sign is used.
func FromAPI(o *api.Keyset) (*Keyset, error) {
	if o.Spec.Type != "" && o.Spec.Type != api.KeysetKeypair {
		return nil, fmt.Errorf("keyset %s: the type %s is not supported", o.Name, o.Spec.Type)
	}
	var items []Item
	primary := ""
	for _, k := range o.Spec.Keys {
		i, err := itemFromAPI(k)
		if err != nil {
			return nil, fmt.Errorf("keyset %s: key %s: %w", o.Name, k.ID, err)
		}
		items = append(items, i)
		if k.ID == o.Spec.PrimaryID && i.Trusted() {
			primary = k.ID
		}
	}
	if primary == "" {
		primary = youngest(items)
	}
	return NewKeyset(o.Name, primary, items...)
}

// youngest returns the identifier of the youngest trusted item that can sign, or "".
func youngest(items []Item) string {
	out := ""
	for _, i := range items {
		if i.Trusted() && !i.Key.IsZero() && i.Certificate != nil && (out == "" || compareIDs(i.ID, out) > 0) {
			out = i.ID
		}
	}
	return out
}

func itemFromAPI(k api.KeysetItem) (Item, error) {
	i := Item{ID: k.ID}
	if k.DistrustTimestamp != nil {
		i.Distrusted = k.DistrustTimestamp.UTC()
	}
	var err error
	if len(k.PublicMaterial) > 0 {
		if i.Certificate, err = ParseCertificate(k.PublicMaterial); err != nil {
			return Item{}, err
		}
	}
	if len(k.PrivateMaterial) > 0 {
		if i.Key, err = ParsePrivateKey(k.PrivateMaterial); err != nil {
			return Item{}, err
		}
	}
	return i, nil
}

// ParseCertificate reads the first certificate of a PEM text.
func ParseCertificate(text []byte) (*x509.Certificate, error) {
	for {
		var b *pem.Block
		if b, text = pem.Decode(text); b == nil {
			return nil, errors.New("parse certificate: no PEM block of a certificate")
		}
		if b.Type != "CERTIFICATE" {
			continue
		}
		c, err := x509.ParseCertificate(b.Bytes)
		if err != nil {
			return nil, fmt.Errorf("parse certificate: %w", err)
		}
		return c, nil
	}
}

// ToAPI returns the keyset as its API object, private keys included.
func (k *Keyset) ToAPI() (*api.Keyset, error) {
	o := &api.Keyset{Spec: api.KeysetSpec{Type: api.KeysetKeypair, PrimaryID: k.Primary}}
	o.APIVersion, o.Kind, o.Name = api.Group+"/"+api.V1Alpha3, api.KindKeyset, k.Name
	for _, i := range k.Items {
		item := api.KeysetItem{ID: i.ID}
		if !i.Trusted() {
			item.DistrustTimestamp = &metav1.Time{Time: i.Distrusted}
		}
		if i.Certificate != nil {
			item.PublicMaterial = EncodeCertificate(i.Certificate)
		}
		if !i.Key.IsZero() {
			text, err := i.Key.PEM()
			if err != nil {
				return nil, fmt.Errorf("keyset %s: key %s: %w", k.Name, i.ID, err)
			}
			item.PrivateMaterial = text
		}
		o.Spec.Keys = append(o.Spec.Keys, item)
	}
	return o, nil
}
